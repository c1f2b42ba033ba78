"""Jacobians and Hessians that are mostly zero, as SciPy matrices, from a few products with vectors.

Where the entries can be is found once (`patterns`); columns that share no row are then measured together, in one product
of the derivative with a vector of zeros and ones (`coloring`). A tridiagonal Jacobian takes three products, however large
it is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.arguments.promotion import finfo
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.func.arguments import raise_if_not_differentiable
from lucid.func.batching import ChunkSize, vmap
from lucid.func.forward import jvp
from lucid.func.graphs import make_graph
from lucid.func.reverse import grad, vjp
from lucid.func.sparse.coloring import (
    Coloring,
    Mode,
    color,
    color_symmetric,
    none,
    reading,
    reading_of_symmetric,
    scipy_sparse,
)
from lucid.func.sparse.patterns import linear_pattern
from lucid.ir.effects import LASTING
from lucid.kinds.kind import Kind, NeedsValueError

_MODES = ("auto", "forward", "reverse", "mixed")


class Sparsity:
    """Where a Jacobian or Hessian can differ from 0, and in which groups its columns or rows are measured.

    `matrix` is a SciPy matrix of truth values, of which the stored entries count. A `symmetric` one stands for a Hessian
    and is completed where only one half was given. Colours are found when they are first needed, and kept.

    >>> import lucid, scipy.sparse
    >>> from lucid.func.sparse import Sparsity
    >>> Sparsity(scipy.sparse.eye_array(4, k=1) + scipy.sparse.eye_array(4))
    Sparsity(shape=(4, 4), entries=7, colors=2)
    """

    __slots__ = ("_colorings", "matrix", "symmetric")

    matrix: Any

    def __init__(self, matrix: Any, symmetric: bool = False) -> None:
        sparse = scipy_sparse()
        given = matrix.matrix if isinstance(matrix, Sparsity) else matrix
        if not sparse.issparse(given):
            given = np.asarray(given)
        if given.ndim != 2:
            raise ValueError(f"Sparsity: a pattern is a matrix, not of shape {given.shape}")
        entries = sparse.coo_array(given)
        kept = sparse.csr_array((np.ones(entries.nnz, bool), (entries.row, entries.col)), shape=given.shape)
        if symmetric:
            if kept.shape[0] != kept.shape[1]:
                raise ValueError(f"Sparsity: a symmetric pattern is square, not of shape {kept.shape}")
            kept = kept + kept.T.tocsr()
        kept.sum_duplicates()
        self.matrix = kept
        self.symmetric = symmetric
        self._colorings: dict[str, tuple[Coloring, np.ndarray]] = {}

    def __repr__(self) -> str:
        return f"Sparsity(shape={self.shape}, entries={self.matrix.nnz}, colors={self.num_colors})"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns.

        >>> import numpy as np
        >>> from lucid.func.sparse import Sparsity
        >>> Sparsity(np.eye(3)[:2]).shape
        (2, 3)
        """
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    @property
    def colors(self) -> np.ndarray:
        """The colour of each column: those of one colour are measured by one product. -1 for columns in none.

        >>> import numpy as np
        >>> from lucid.func.sparse import Sparsity
        >>> Sparsity([[1, 1, 0], [0, 1, 1]]).colors.tolist()
        [0, 1, 0]
        """
        return self.coloring().columns

    @property
    def row_colors(self) -> np.ndarray:
        """The colour of each row, where rows are measured, by products from the left; -1 for the others.

        >>> from lucid.func.sparse import Sparsity
        >>> Sparsity([[1, 1, 1]]).row_colors.tolist()
        [0]
        """
        return self.coloring().rows

    @property
    def num_colors(self) -> int:
        """How many products it takes to find all entries.

        >>> from lucid.func.sparse import Sparsity
        >>> Sparsity([[1, 1, 0], [0, 1, 1]]).num_colors
        2
        """
        return self.coloring().num_colors

    def coloring(self, mode: Mode = "auto") -> Coloring:
        """The colours for one mode; a Hessian has only one.

        >>> import numpy as np
        >>> from lucid.func.sparse import Sparsity
        >>> Sparsity(np.tri(3)[1:]).coloring("reverse").num_colors
        2
        """
        return self._plan(mode)[0]

    def _plan(self, mode: Mode) -> tuple[Coloring, np.ndarray]:
        """The colours, and where in the products the entries are to be found."""
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, _MODES))}, not {mode!r}")
        if mode not in self._colorings:
            if self.symmetric:
                colors = color_symmetric(self.matrix)
                plan = Coloring(colors, none(len(colors))), reading_of_symmetric(self.matrix, colors)
            else:
                coloring = color(self.matrix, mode)
                plan = coloring, reading(self.matrix, coloring)
            self._colorings[mode] = plan
        return self._colorings[mode]

    def _filled(self, plan: tuple[Coloring, np.ndarray], dtype: np.dtype[Any], *products: np.ndarray) -> Any:
        """The matrix with the entries that the products give; index arrays are copied, as users may change them."""
        kind = dtype if dtype.itemsize >= 4 else np.float32  # SciPy has no half precision
        measured = np.concatenate([p.reshape(-1).astype(kind, copy=False) for p in products])
        indices, indptr = self.matrix.indices.copy(), self.matrix.indptr.copy()
        return scipy_sparse().csr_array((measured[plan[1]], indices, indptr), shape=self.shape)


class _Function:
    """A user's function of one tensor with what is asked of its result, and the type that this had last."""

    def __init__(self, name: str, func: Callable[..., Any], has_aux: bool, is_scalar: bool = False) -> None:
        self.name, self.func, self.has_aux, self.is_scalar = name, func, has_aux, is_scalar
        self.rows: int | None = None
        self.dtype: Any = None

    def __call__(self, x: Tensor) -> tuple[Tensor, Any]:
        out = self.func(x)
        aux = None
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(f"{self.name}: with has_aux=True the function must return a pair (value, aux)")
            out, aux = out
        if not isinstance(out, Tensor):
            raise TypeError(
                f"{self.name}: the function must return one tensor, not {type(out).__name__}; join several with cat"
            )
        raise_if_not_differentiable(out, self.name, "the result")
        if self.is_scalar and out.numel() != 1:
            raise ValueError(
                f"{self.name}: the function must return one number, but its result has shape {out.shape}; "
                "reduce it, as with .sum(), or use sparse_jacobian"
            )
        if self.rows is not None and out.numel() != self.rows:
            raise ValueError(
                f"{self.name}: the pattern has {self.rows} rows, but the result of the function has {out.numel()} "
                f"elements (shape {out.shape})"
            )
        self.dtype = out.np_dtype
        return out, aux


def _input(name: str, x: Any) -> Tensor:
    found = lift(x)
    if isinstance(found, Kind):
        raise RuntimeError(
            f"{name} gives a SciPy matrix, which cannot be made inside of {found.transform_name}; call it outside, or "
            "use jacrev, jacfwd or hessian"
        )
    raise_if_not_differentiable(found, name, "the input")
    if found.is_complex():
        raise TypeError(
            f"{name}: the input has dtype {found.dtype}; give its real and imaginary parts as one real tensor, as with "
            "view_as_real"
        )
    return found.detach()


def _push(function: _Function, x: Tensor, tangent: Tensor) -> tuple[Tensor, Any]:
    """The product of the Jacobian with a vector, and what the function gave beside its value."""
    _, change, aux = jvp(function, (x,), (tangent,), has_aux=True)
    return change, aux


def _push_gradient(function: _Function, x: Tensor, tangent: Tensor) -> tuple[Tensor, Any]:
    """The same for the Hessian."""
    _, change, aux = jvp(grad(function, has_aux=True), (x,), (tangent,), has_aux=True)
    return change, aux


def _detected(function: _Function, x: Tensor) -> Sparsity:
    """Where the derivative of a function can differ from 0."""
    push = _push_gradient if function.is_scalar else _push
    try:
        program = make_graph(lambda x, t: push(function, x, t)[0])(x, Tensor._wrap(np.ones(x.shape, x.np_dtype)))
        found = linear_pattern(program, 1)
    except NeedsValueError as error:
        raise NeedsValueError(
            f"{function.name}: a pattern holds for all x, but the function looks at values of this one; if you know the "
            f"pattern, give it as pattern=. ({error})"
        ) from error
    if any(effect.kind in LASTING for effect in program.effects):
        raise RuntimeError(
            f"{function.name}: the function draws random numbers or writes to tensors from outside, so the next call is of "
            "another function; do that outside of it"
        )
    # Second derivatives do not depend on the order: what is 0 on one side of the diagonal is 0 on the other.
    return Sparsity(found.multiply(found.T), symmetric=True) if function.is_scalar else Sparsity(found)


def jacobian_pattern(func: Callable[..., Any], x: Any, *, has_aux: bool = False) -> Sparsity:
    """Where the Jacobian of `func` can differ from 0, for any value of `x`: rows are elements of the result.

    The pattern is read off the operations that forward mode consists of, so it may be larger than need be where terms
    cancel, but never too small. It holds as long as `func` does the same operations: numbers that do not come from `x`
    (shapes, Python's `if`, indices, masks, coefficients that are 0) count as they are now. Closed-over tensors that
    require grad may take any value.

    >>> import lucid
    >>> from lucid.func.sparse import jacobian_pattern
    >>> found = jacobian_pattern(lambda x: x[1:] * x[:-1], lucid.zeros(4))
    >>> found.matrix.toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    >>> found.num_colors
    2
    """
    name = "jacobian_pattern"
    return _detected(_Function(name, func, has_aux), _input(name, x))


def hessian_pattern(func: Callable[..., Any], x: Any, *, has_aux: bool = False) -> Sparsity:
    """Where the Hessian of `func`, whose result is one number, can differ from 0: see `jacobian_pattern`.

    That it is symmetric is taken for granted, as it is wherever second derivatives are continuous and custom rules right.

    >>> import lucid
    >>> from lucid.func.sparse import hessian_pattern
    >>> hessian_pattern(lambda x: (x[1:] * x[:-1]).sum() + x[0] ** 3, lucid.zeros(3)).matrix.toarray().astype(int)
    array([[1, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    name = "hessian_pattern"
    return _detected(_Function(name, func, has_aux, is_scalar=True), _input(name, x))


def _given(function: _Function, pattern: Any, x: Tensor) -> Sparsity:
    """The pattern to use, checked; found if there is none."""
    if pattern is None:
        return _detected(function, x)
    reusable = isinstance(pattern, Sparsity) and pattern.symmetric == function.is_scalar
    found: Sparsity = pattern if reusable else Sparsity(pattern, function.is_scalar)
    if found.shape[1] != x.numel():
        raise ValueError(
            f"{function.name}: the pattern has shape {found.shape}, but the input has {x.numel()} elements, one for each "
            "column"
        )
    return found


def _products(map_: Callable[[Tensor], Any], colors: np.ndarray, like: Any, chunk_size: ChunkSize) -> np.ndarray:
    """A linear map of the sum of the unit vectors of each colour, all colours in one batch."""
    number = int(colors.max(initial=-1)) + 1
    if not number:
        return np.zeros((0, 0), like.np_dtype)
    seeds = np.zeros((number, colors.size), like.np_dtype)
    used = np.flatnonzero(colors >= 0)
    seeds[colors[used], used] = 1
    found: Tensor = vmap(map_, chunk_size=chunk_size)(Tensor._wrap(seeds.reshape(number, *like.shape)))
    return found.detach().numpy()


def _verified(function: _Function, matrix: Any, push: Callable[[Tensor], Any], x: Tensor) -> None:
    """Compare with the product along a random direction, which sees all entries."""
    direction = np.random.default_rng(0).standard_normal(x.shape).astype(x.np_dtype)
    expected = push(Tensor._wrap(direction)).detach().numpy().reshape(-1).astype(matrix.dtype)
    vector = direction.reshape(-1).astype(matrix.dtype)
    found = matrix @ vector
    scale = abs(matrix) @ np.abs(vector) + np.abs(expected)
    eps = max(finfo(x.np_dtype).eps, finfo(function.dtype).eps)
    wrong = np.abs(found - expected) > np.sqrt(eps) * scale + eps
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{function.name}: the pattern does not hold all entries: along a random direction row {row} gives "
            f"{found[row]:.6g} instead of {expected[row]:.6g}, and {int(wrong.sum())} of {len(wrong)} rows differ. "
            "Leave pattern= out to have it found"
        )


def sparse_jacobian(
    func: Callable[..., Any],
    x: Any,
    *,
    pattern: Any = None,
    mode: Mode = "auto",
    chunk_size: ChunkSize = None,
    has_aux: bool = False,
    verify: bool = False,
) -> Any:
    """The Jacobian of `func` at `x` as a `scipy.sparse.csr_array` of shape (elements of the result, elements of `x`).

    `pattern` says where entries can be: what `jacobian_pattern` gives, to find it and its colours only once, or any
    matrix, of which the stored entries count. Without it the pattern is found first. Entries of the pattern that happen
    to be 0 are stored too.

    `mode` "forward" takes one product with a vector for each colour of the columns, "reverse" for each colour of the
    rows, "mixed" measures full rows in reverse and the others forward; "auto" takes the fewest products. They are made
    in one batch, or in batches of `chunk_size`. With `has_aux`, `func` returns a pair, and the second entry is handed on:
    `(jacobian, aux)`. `verify` makes one more product, along a random direction, and raises if an entry was missed.

    >>> import lucid
    >>> from lucid.func.sparse import sparse_jacobian
    >>> x = lucid.tensor([1.0, 2.0, 3.0, 4.0])
    >>> sparse_jacobian(lambda x: x[1:] * x[:-1], x).toarray()
    array([[2., 1., 0., 0.],
           [0., 3., 2., 0.],
           [0., 0., 4., 3.]], dtype=float32)
    """
    function = _Function("sparse_jacobian", func, has_aux)
    point = _input(function.name, x)
    sparsity = _given(function, pattern, point)
    function.rows = sparsity.shape[0]
    plan = sparsity._plan(mode)
    aux: Any = None

    def push(tangent: Tensor) -> Tensor:
        nonlocal aux
        change, aux = _push(function, point, tangent)
        return change

    backward = np.zeros((0, 0), point.np_dtype)
    if plan[0].num_rows or not plan[0].num_colors:
        value, pull, aux = vjp(function, point, has_aux=True)
        if not value.is_complex():
            backward = _products(lambda ct: pull(ct)[0], plan[0].rows, value, chunk_size)
        elif mode == "auto":
            plan = sparsity._plan("forward")
        else:
            raise ValueError(f'{function.name}: a complex result has no Jacobian in reverse; use mode="forward"')
    forward = _products(push, plan[0].columns, point, chunk_size)
    found = sparsity._filled(plan, function.dtype, forward, backward)
    if verify:
        _verified(function, found, push, point)
    return (found, aux) if has_aux else found


def sparse_hessian(
    func: Callable[..., Any],
    x: Any,
    *,
    pattern: Any = None,
    chunk_size: ChunkSize = None,
    has_aux: bool = False,
    verify: bool = False,
) -> Any:
    """The second derivatives of `func`, whose result is one number, as a symmetric `scipy.sparse.csr_array`.

    It takes one product of the Hessian with a vector (forward over reverse mode) for each colour; of entries on both
    sides of the diagonal only one needs to be seen. The arguments are those of `sparse_jacobian`, and `pattern` what
    `hessian_pattern` gives, or any matrix, of which one half is enough.

    >>> import lucid
    >>> from lucid.func.sparse import hessian_pattern, sparse_hessian
    >>> rosenbrock = lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    >>> pattern = hessian_pattern(rosenbrock, lucid.ones(1000))
    >>> pattern.num_colors
    3
    >>> sparse_hessian(rosenbrock, lucid.ones(1000), pattern=pattern).toarray()[:3, :3]
    array([[ 802., -400.,    0.],
           [-400., 1002., -400.],
           [   0., -400., 1002.]], dtype=float32)
    """
    function = _Function("sparse_hessian", func, has_aux, is_scalar=True)
    point = _input(function.name, x)
    sparsity = _given(function, pattern, point)
    plan = sparsity._plan("auto")
    aux: Any = None

    def push(tangent: Tensor) -> Tensor:
        nonlocal aux
        change, aux = _push_gradient(function, point, tangent)
        return change

    if not plan[0].num_colors:
        _, aux = function(point)
    found = sparsity._filled(plan, point.np_dtype, _products(push, plan[0].columns, point, chunk_size))
    if verify:
        _verified(function, found, push, point)
    return (found, aux) if has_aux else found
