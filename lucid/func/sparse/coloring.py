"""Colourings: which columns or rows of a sparse matrix can be measured together, in one product with a vector.

A product of the matrix with the sum of some unit vectors gives, in each row, the sum of the entries in these columns:
an entry can be read off where it is the only one of its row. A colouring puts columns (for products from the right),
rows (from the left) or both into groups such that every entry can be read off one of the products. Columns of one
colour must have no row in common; the columns of a symmetric matrix may, as long as the entry on the other side of the
diagonal can be read off. In terms of the graph with an edge for each entry this is a star colouring: no path over four
vertices has only two colours.

Sets of colours are the bits of one whole number, so the smallest colour that is free is found by a few operations.

`movement` and `probed` find out where a matrix has entries that can only be multiplied by vectors.
"""

import importlib
import math
from collections.abc import Callable
from itertools import islice, product
from typing import Any, Literal, NamedTuple

import numpy as np

Mode = Literal["auto", "forward", "reverse", "mixed"]
Matrix = Any  # a scipy.sparse.csr_array of truth values
Product = Callable[[np.ndarray], np.ndarray]  # of an unknown matrix with a vector

_SAMPLE = 4096  # rows that are looked at first where a guess is probably wrong
_LONGEST = 32  # rows with more entries are not those of bands and stencils
_TRIES = 400
_ROUNDS = 4  # of recolouring in another order, for matrices of up to _SMALL entries
_SMALL = 100_000

_FEWEST_GROUPS = 64  # that an unknown matrix is first tried with
_SPLIT = 8
_MOST_PRODUCTS = 512


def scipy_sparse() -> Any:
    """SciPy's sparse matrices, imported on first use."""
    return importlib.import_module("scipy.sparse")


def gather(sources: np.ndarray, size: int) -> Matrix:
    """Each element of the result is one of `size` elements, or none where its number is negative."""
    flat = sources.reshape(-1)
    there = flat >= 0
    starts = np.zeros(flat.size + 1, np.int64)
    np.cumsum(there, out=starts[1:])
    chosen = flat if there.all() else flat[there]
    return scipy_sparse().csr_array((np.ones(chosen.size, bool), chosen, starts), shape=(flat.size, size))


def scatter(targets: np.ndarray, size: int) -> Matrix:
    """Each element goes to one of `size` elements of the result, or to none where its number is negative."""
    return gather(targets, size).T.tocsr()


class Coloring(NamedTuple):
    """The colour of each column and of each row; -1 for those that are in no product."""

    columns: np.ndarray
    rows: np.ndarray

    @property
    def num_columns(self) -> int:
        """How many products with columns there are."""
        return count(self.columns)

    @property
    def num_rows(self) -> int:
        """How many products with rows there are."""
        return count(self.rows)

    @property
    def num_colors(self) -> int:
        """How many products there are."""
        return self.num_columns + self.num_rows

    @property
    def cost(self) -> int:
        """The number of products; one more where the function is to be run in both modes."""
        return self.num_colors + (self.num_columns > 0 and self.num_rows > 0)


def count(colors: np.ndarray) -> int:
    """The number of colours."""
    return int(colors.max(initial=-1)) + 1


def none(size: int) -> np.ndarray:
    """Columns or rows without colours."""
    return np.full(size, -1, np.int32)


def rows_of(matrix: Matrix) -> np.ndarray:
    """The row of each entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))


def alone(places: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Whether each entry, given by its row and the colour of its column, is the only one of its row and colour."""
    out = np.zeros(places.size, bool)
    colored = colors >= 0
    keys = places[colored].astype(np.int64) * count(colors) + colors[colored]
    if keys.size:
        out[colored] = np.bincount(keys)[keys] == 1
    return out


def readable(matrix: Matrix, coloring: Coloring) -> tuple[np.ndarray, np.ndarray]:
    """Whether each entry can be read off a product with columns, and off one with rows."""
    rows, columns = rows_of(matrix), matrix.indices
    by_column = alone(rows, coloring.columns[columns])
    by_row = by_column if by_column.all() else alone(columns, coloring.rows[rows])
    return by_column, by_row


def reading(matrix: Matrix, coloring: Coloring) -> np.ndarray:
    """Where each entry stands in the products with columns, followed by those with rows."""
    height, width = matrix.shape
    rows, columns = rows_of(matrix), matrix.indices
    by_column, _ = readable(matrix, coloring)
    groups, row_groups = coloring.columns.astype(np.int64), coloring.rows.astype(np.int64)
    behind = coloring.num_columns * height
    return np.where(by_column, groups[columns] * height + rows, behind + row_groups[rows] * width + columns)


def reading_of_symmetric(matrix: Matrix, colors: np.ndarray) -> np.ndarray:
    """The same for a symmetric matrix: entries that are mirror images stand in one place."""
    size = matrix.shape[0]
    rows, columns = rows_of(matrix).astype(np.int64), matrix.indices
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    number, colors = count(colors), colors.astype(np.int64)
    occurrences = np.bincount(rows * number + colors[columns], minlength=size * number)
    in_row = occurrences[high * number + colors[low]] == 1
    return np.where(in_row, colors[low] * size + high, colors[high] * size + low)


def color_columns(matrix: Matrix) -> np.ndarray:
    """Colours for the columns such that those of one colour have no row in common; -1 for empty columns.

    No colouring has fewer colours than the fullest row has entries, which is what banded matrices get.
    """
    rows, columns = matrix.shape
    if not matrix.nnz:
        return none(columns)
    least = int(np.diff(matrix.indptr).max())
    by_column = matrix.T.tocsr()
    used = np.diff(by_column.indptr) > 0
    regular = np.cumsum(used) - 1 if least == used.sum() else _regular(matrix, least)
    if regular is not None:
        return np.where(used, regular, -1).astype(np.int32)
    meetings = by_column.astype(np.int64) @ (np.diff(matrix.indptr) - 1)
    lists = by_column.indptr.tolist(), by_column.indices.tolist()
    rounds = _ROUNDS if matrix.nnz <= _SMALL else 0
    return _fewest(lambda order: _greedy(*lists, order, rows, columns), used, meetings, least, rounds)


def _fewest(
    color_in: Callable[[list[int]], np.ndarray], used: np.ndarray, weights: np.ndarray, least: int, rounds: int
) -> np.ndarray:
    """The best of several orders: as they come, the heaviest first, and then again with the highest colour first."""
    chosen = np.flatnonzero(used)
    best = color_in(chosen.tolist())
    for attempt in range(1 + rounds):
        if count(best) == least:
            break
        rank = -weights if attempt == 0 else -best
        found = color_in(chosen[np.argsort(rank[chosen], kind="stable")].tolist())
        best = found if count(found) <= count(best) else best
    return best


def _greedy(starts: list[int], places: list[int], order: list[int], rows: int, columns: int) -> np.ndarray:
    """Each column in turn gets the smallest colour that none of its rows has seen."""
    seen = [0] * rows
    colors = none(columns)
    for column in order:
        own = places[starts[column] : starts[column + 1]]
        taken = 0
        for row in own:
            taken |= seen[row]
        free = ~taken & (taken + 1)
        for row in own:
            seen[row] |= free
        colors[column] = free.bit_length() - 1
    return colors


def _regular(matrix: Matrix, length: int, symmetric: bool = False) -> np.ndarray | None:
    """Colours that repeat, if there are any of this length that will do: bands and stencils have no better ones.

    On a grid with strides 1, s, t … they are (j + a·⌊j/s⌋ + b·⌊j/t⌋ + …) modulo the length. What does not do for a part
    of the matrix does not do for all of it.
    """
    if not 0 < length <= _LONGEST:
        return None
    grid = [np.arange(matrix.shape[1]) // s for s in _strides(matrix)]
    part = matrix[:_SAMPLE, :_SAMPLE] if symmetric else matrix[:_SAMPLE]
    for factors in islice(product(range(length), repeat=len(grid)), _TRIES):
        numbers = np.arange(matrix.shape[1])
        for factor, coordinate in zip(factors, grid, strict=True):
            numbers += factor * coordinate
        colors = (numbers % length).astype(np.int32)
        if _will_do(part, colors, symmetric) and _will_do(matrix, colors, symmetric):
            return colors
    return None


def _strides(matrix: Matrix) -> list[int]:
    """How far apart the dimensions of a grid lie, if the columns are its elements and the matrix holds a stencil.

    The columns of a row are then in runs around multiples of the strides.
    """
    size = matrix.shape[1]
    middle = matrix.shape[0] // 2
    columns = matrix.indices[matrix.indptr[middle] : matrix.indptr[middle + 1]]
    if not 0 < len(columns) <= _LONGEST:
        return []
    apart = np.unique(np.abs(columns[:, None] - columns))
    runs = np.split(apart, np.flatnonzero(np.diff(apart) > 1) + 1)[1:]
    strides: list[int] = []
    for stride in (int(run[len(run) // 2]) for run in runs):
        # Two or three steps in a direction are no direction of their own.
        if size % stride == 0 and not any(stride in (2 * s, 3 * s) for s in strides):
            strides.append(stride)
    return strides[:3]


def _will_do(matrix: Matrix, colors: np.ndarray, symmetric: bool) -> bool:
    rows, columns = rows_of(matrix), matrix.indices
    fine = alone(rows, colors[columns])
    if symmetric:
        fine |= alone(columns, colors[rows])
    return bool(fine.all())


def color_symmetric(matrix: Matrix) -> np.ndarray:
    """Colours for the columns of a symmetric matrix, mostly a star colouring; -1 for empty columns.

    Every entry is the only one of its colour in its row, or its mirror image is in its own.
    """
    size = matrix.shape[0]
    used = np.diff(matrix.indptr) > 0
    widest = int(np.diff(matrix.indptr).max(initial=0))
    regular = np.cumsum(used) - 1 if matrix.nnz == used.sum() ** 2 else _regular(matrix, widest, symmetric=True)
    if regular is not None:
        while (fewer := _regular(matrix, count(regular) - 1, symmetric=True)) is not None:
            regular = fewer
        return np.where(used, regular, -1).astype(np.int32)
    rows = rows_of(matrix)
    off = rows != matrix.indices
    degrees = np.bincount(rows[off], minlength=size)
    lists = np.concatenate(([0], np.cumsum(degrees))).tolist(), matrix.indices[off].tolist()
    rounds = _ROUNDS if matrix.nnz <= _SMALL else 0
    return _fewest(lambda order: _greedy_star(*lists, order, size), used, degrees, 1, rounds)


def _greedy_star(starts: list[int], neighbours: list[int], order: list[int], size: int) -> np.ndarray:
    """Each vertex in turn gets the smallest colour with which no path over four vertices has only two colours.

    For each vertex stand the colours of its neighbours, those that it sees at least twice, and, for a vertex that has
    its colour, the colours of neighbours that see this colour at least twice: the centres of stars that it belongs to.
    """
    bits, seen, twice, centres = [0] * size, [0] * size, [0] * size, [0] * size
    first: dict[tuple[int, int], int] = {}
    for v in order:
        near = neighbours[starts[v] : starts[v + 1]]
        taken, repeated = seen[v], twice[v]
        for w in near:
            if bits[w]:
                taken |= centres[w]
                if bits[w] & repeated:
                    taken |= seen[w]
        own = ~taken & (taken + 1)
        bits[v] = own
        for w in near:
            color = bits[w]
            if color & repeated:
                centres[w] |= own
            if not seen[w] & own:
                seen[w] |= own
                first[w, own] = v
                continue
            if not twice[w] & own:
                twice[w] |= own
                centres[first[w, own]] |= color
            centres[v] |= color
    colors = none(size)
    colors[order] = [bits[v].bit_length() - 1 for v in order]
    return colors


def _by_columns(matrix: Matrix) -> Coloring:
    return Coloring(color_columns(matrix), none(matrix.shape[0]))


def _transposed(coloring: Coloring) -> Coloring:
    return Coloring(coloring.rows, coloring.columns)


def _heavy(matrix: Matrix) -> tuple[np.ndarray, int]:
    """The rows that are best measured from the left, and how many colours that leaves at least.

    Without its k fullest rows a matrix needs as many colours as the next one has entries; they need at most k.
    """
    entries = np.diff(matrix.indptr)
    order = np.argsort(-entries, kind="stable")
    cost = np.arange(len(order) + 1) + np.concatenate((entries[order], [0]))
    best = int(cost.argmin())
    return order[:best], int(cost[best])


def _mixed(matrix: Matrix) -> Coloring:
    """The fullest rows from the left, all others from the right."""
    heavy, _ = _heavy(matrix)
    light = np.ones(matrix.shape[0], bool)
    light[heavy] = False
    rows = none(matrix.shape[0])
    rows[heavy] = color_columns(matrix[heavy].T.tocsr())
    return Coloring(color_columns(_where(matrix, light)), rows)


def _where(matrix: Matrix, rows: np.ndarray) -> Matrix:
    """The matrix with only some rows filled."""
    kept = np.repeat(rows, np.diff(matrix.indptr))
    indptr = np.concatenate(([0], np.cumsum(np.where(rows, np.diff(matrix.indptr), 0))))
    return scipy_sparse().csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def color(matrix: Matrix, mode: Mode) -> Coloring:
    """A colouring for measuring by products from the right (forward), from the left (reverse), or both (mixed).

    "auto" gives the one with the fewest colours; of equals the simplest.
    """
    if mode == "forward":
        return _by_columns(matrix)
    transposed = matrix.T.tocsr()
    if mode == "reverse":
        return _transposed(_by_columns(transposed))
    ways: list[tuple[int, Any]] = []
    if mode == "auto":
        ways += [
            (int(np.diff(matrix.indptr).max(initial=0)), lambda: _by_columns(matrix)),
            (int(np.diff(transposed.indptr).max(initial=0)), lambda: _transposed(_by_columns(transposed))),
        ]
    ways += [
        (_heavy(matrix)[1] + 1, lambda: _mixed(matrix)),
        (_heavy(transposed)[1] + 1, lambda: _transposed(_mixed(transposed))),
    ]
    best: Coloring | None = None
    # Those that may need the fewest colours first: the others are often out of the question.
    for least, make in sorted(ways, key=lambda way: way[0]):
        if best is None or least < best.cost:
            found: Coloring = make()
            if best is None or found.cost < best.cost:
                best = found
    assert best is not None
    return best


def movement(run: Product, width: int, size: int) -> np.ndarray | None:
    """For each element of the result the one that it is a multiple of, or -1; None if there are several."""
    factors = run(np.ones(width))
    there = factors != 0
    sources = np.full(size, -1)
    sources[there] = np.rint(run(np.arange(1.0, width + 1))[there] / factors[there]) - 1
    if there.any() and not 0 <= sources[there].min() <= sources[there].max() < width:
        return None
    random = np.random.default_rng(1).uniform(1, 2, width)
    expected = np.where(there, factors * random[sources], 0) if width else np.zeros(size)
    return sources if np.allclose(run(random), expected, rtol=4e-16, atol=0) else None


def probed(run: Product, width: int, size: int) -> Matrix | None:
    """The pattern of a matrix that can only be multiplied: by parts of a random vector, first large, then smaller.

    Parts that meet in no row so far are tried together. None if that takes too many products.
    """
    random = np.random.default_rng(2).uniform(0.5, 1.5, width)
    part = _SPLIT ** max(0, math.ceil(math.log(max(width, 1) / _FEWEST_GROUPS, _SPLIT)))
    groups = -(-width // part)
    pattern = scipy_sparse().csr_array(np.ones((size, groups), bool))
    while True:
        colors = color_columns(pattern)
        if count(colors) > _MOST_PRODUCTS:
            return None
        of_element = colors[np.arange(width) // part]
        seen = np.zeros((count(colors), size), bool)
        for color in range(count(colors)):
            seen[color] = run(np.where(of_element == color, random, 0)) != 0
        rows, columns = rows_of(pattern), pattern.indices
        kept = seen[colors[columns], rows]
        rows, columns = rows[kept], columns[kept]
        if part > 1:
            part //= _SPLIT
            groups = -(-width // part)
            rows, columns = np.repeat(rows, _SPLIT), (columns[:, None] * _SPLIT + np.arange(_SPLIT)).reshape(-1)
            rows, columns = rows[columns < groups], columns[columns < groups]
            pattern = scipy_sparse().csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(size, groups))
        else:
            return scipy_sparse().csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(size, width))
