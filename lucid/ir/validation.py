"""Whether instructions that were read from a file are such as a trace could have written.

Kernels trust what calls them. So types and shapes of results are derived again by the abstract rules, a fused primitive
is traced by its composite, and parameters that name dimensions and elements must fit the shapes of operands.
"""

import math
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from lucid import ops
from lucid.core.primitive import P, Primitive, registry
from lucid.ir import placeholders
from lucid.ir.printing import type_of
from lucid.ir.program import Program
from lucid.ir.trace import traced
from lucid.ir.values import Instruction, Name
from lucid.ops.abstract import Abstract, broadcast
from lucid.ops.fused import Gradient
from lucid.ops.nn.resampling import AxisMap

MAX_COUNT = 1000  # derivatives of a function of elements, or the degree of a polynomial
_COUNTS = ("order", "degree", "n", "p")


class ExportError(ValueError):
    """A function cannot be exported, or a file holds no program that can be read.

    >>> import lucid
    >>> issubclass(lucid.func.ExportError, ValueError)
    True
    """


def declared(name: str) -> Any:
    """The primitive of a name, wherever it is declared; None if there is none."""
    found = registry.get(name)
    if found is None:
        _declare_all()
        found = registry.get(name)
    return found if isinstance(found, Primitive) and not found.is_call else None


@cache
def _declare_all() -> None:
    """Load every module that declares primitives."""
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        import_module(module.name)


def raise_unless_possible(instruction: Instruction) -> None:
    """Derive the results again, and compare."""
    what, operands, params, results, _ = instruction
    try:
        abstracts = [Abstract(o.shape, o.dtype.numpy) if isinstance(o, Name) else o for o in operands]
        derived = _derived(what, tuple(abstracts), params)
    except ExportError:
        raise
    except Exception as error:  # rules trust what calls them too
        raise ExportError(f"operands and parameters do not fit: {type(error).__name__}: {error}") from None
    said = [Abstract(r.shape, r.dtype.numpy) for r in results]
    if [tuple(d) for d in derived] != [tuple(s) for s in said]:
        found = ", ".join(f"{d.dtype}{list(d.shape)}" for d in derived)
        raise ExportError(f"it gives {found}, not {', '.join(type_of(r) for r in results)}")


def _derived(what: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> list[Abstract]:
    """Types and shapes of the results."""
    abstracts = list(operands)
    if not isinstance(what, Primitive):
        return [Abstract(tuple(a.shape), a.dtype) for a in what.abstract(*abstracts, **params)]
    if not _takes(what, len(operands)):
        raise ExportError(f"it takes {len(what.operands)} operands, not {len(operands)}")
    _raise_unless_fitting(what, abstracts, params)
    assert what.abstract is not None  # every primitive has one
    found = what.abstract(*abstracts, **params)
    made = [Abstract(tuple(a.shape), a.dtype) for a in (found if what.multi else (found,))]
    if what.composite is not None:
        _raise_unless_composed(what, abstracts, params, made)
    return made


def _takes(what: Primitive, count: int) -> bool:
    if what.is_variadic or what is P.index_last:
        return count > 0
    return count == len(what.operands)


def _raise_unless_composed(what: Primitive, operands: list[Any], params: dict[str, Any], made: list[Abstract]) -> None:
    """Trace the definition of a fused primitive, whose instructions are checked like any others."""
    primitive: Any = what
    if isinstance(what, Gradient):
        primitive, count = what.of, len(what.of.results)
        cts, operands = operands[:count], operands[count:]
        whole = primitive.abstract(*operands, **params)
        made = list(whole if primitive.multi else (whole,))
        if any(c is not None and (c.shape, c.dtype) != (m.shape, m.dtype) for c, m in zip(cts, made, strict=True)):
            raise ExportError("a cotangent is not like its result")
    given = [placeholders.empty(o.shape, o.dtype) if isinstance(o, Abstract) else o for o in operands]
    program = traced(lambda *xs: primitive.composite(*xs, **params), tuple(given), {})
    for instruction in program.instructions:
        raise_unless_possible(instruction)
    outs = [(o.shape, o.dtype.numpy) for o in program.outputs if isinstance(o, Name)]
    if outs != [(m.shape, m.dtype) for m in made]:
        raise ExportError("its definition gives other shapes or types")


# --- parameters ----------------------------------------------------------------------------------


def _raise_unless_fitting(what: Primitive, operands: list[Any], params: dict[str, Any]) -> None:
    for name, value in params.items():  # how often a derivative is taken, and the like: loops of that length
        counts = name in _COUNTS or name.startswith("by")
        if what.is_scalar and counts and type(value) is int and abs(value) > MAX_COUNT:
            raise ExportError(f"its parameter {name}={value} is larger than {MAX_COUNT}")
    for name, check in _CHECKS.items():
        if name in params and not check(what, operands, params):
            raise ExportError(f"its parameter {name}={params[name]!s:.80} does not fit the operands")
    other = _TRANSPOSED.get(what.name)
    if other is not None:
        rest = {k: v for k, v in params.items() if k not in ("shape", "value")}
        if other == "as_strided":
            rest["lead"] = 0
        back = Abstract(params["shape"], operands[0].dtype)
        _raise_unless_fitting(registry[other], [back], rest)
        if registry[other].abstract(back, **rest).shape != operands[0].shape:
            raise ExportError("its operand has not the shape that its parameters say")
    own = _OWN.get(what.name)
    if own is not None and not own(*operands, **params):
        raise ExportError("its operands and parameters do not fit each other")
    if what.positions is not None and any(o.dtype.kind not in "iub" for o in operands[what.positions :]):
        raise ExportError("positions must be integers")


# What writes where a view or another map of places reads.
_TRANSPOSED = {
    "slice_back": "slice",
    "pad": "slice",
    "diagonal_back": "diagonal",
    "unfold_back": "unfold",
    "as_strided_back": "as_strided",
}


def _is_number(value: Any, least: int, most: float) -> bool:
    return type(value) is int and least <= value <= most


def _is_shape(value: Any) -> bool:
    return type(value) is tuple and len(value) <= 64 and all(_is_number(n, 0, 1 << 62) for n in value)


def _rank(what: Primitive, operands: list[Any], params: dict[str, Any]) -> int:
    """How many dimensions parameters count."""
    if what in (P.spread, P.unfold_back, P.diagonal_back):
        return len(params["shape"])
    return max(o.ndim for o in operands if isinstance(o, Abstract)) + (what is P.stack)


def _is_dim(name: str) -> Callable[..., bool]:
    return lambda what, operands, params: _is_number(params[name], 0, _rank(what, operands, params) - 1)


def _are_dims(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    dims, rank = params["dims"], _rank(what, operands, params)
    if type(dims) is not tuple or not all(_is_number(d, 0, rank - 1) for d in dims):
        return False
    if what is P.permute and len(dims) != rank:
        return False
    return what is P.roll or len(set(dims)) == len(dims)


def _is_index(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    index = params["index"]
    return type(index) is tuple and all(i is None or i is Ellipsis or type(i) in (int, slice) for i in index)


def _is_geometry(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    """Whether every tap of a window lies inside of the padded input."""
    g = params["geometry"]
    for size, kernel, stride, (before, after), dilation, out in zip(
        g.size, g.kernel, g.stride, g.padding, g.dilation, g.out, strict=True
    ):
        reach = (out - 1) * stride + (kernel - 1) * dilation + 1
        if min(kernel, stride, dilation) < 1 or (out and reach > size + before + after) or out < 0:
            return False
    is_product = g.taps == 1 and g.out == g.size and not any(map(any, g.padding))
    if g.groups < 1 or g.taps != math.prod(g.kernel) or g.is_product != is_product:
        return False
    shapes = [o.shape for o in operands if isinstance(o, Abstract)]
    if what is P.patches or what is P.patches_back:
        expected = g.size if what is P.patches else (*g.kernel, *g.out)
        return shapes[0][2:] == expected
    return _are_windows(what, shapes, g)


def _are_windows(what: Primitive, shapes: list[tuple[int, ...]], g: Any) -> bool:
    rank = len(g.size) + 2
    name = what.of.name if isinstance(what, Gradient) else what.name
    if isinstance(what, Gradient):
        shapes = shapes[1:]
    if any(len(s) != rank for s in shapes[:2]):
        return False
    if name in ("convolution", "biased_convolution"):
        (x, w), rest = shapes[:2], shapes[2:]
        fits = x[2:] == g.size and w[2:] == g.kernel and x[1] == w[1] * g.groups and w[0] % g.groups == 0
        return fits and all(b == (w[0],) for b in rest)
    if name == "convolution_input":
        y, w = shapes
        return y[2:] == g.out and w[2:] == g.kernel and y[1] == w[0] and w[0] % g.groups == 0
    x, y = shapes
    return x[2:] == g.size and y[2:] == g.out and x[0] == y[0] and x[1] % g.groups == 0 == y[1] % g.groups


def _are_maps(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    maps = params["maps"]
    if type(maps) is not tuple or not all(m is None or isinstance(m, AxisMap) for m in maps):
        return False
    # Of two operands, the second one is the input of the pooling.
    source = operands[1] if what is P.max_pool_put else operands[0]
    sizes = source.shape[source.ndim - len(maps) :]
    if len(maps) > source.ndim or not all(m is None or m.size == n for m, n in zip(maps, sizes, strict=True)):
        return False
    if what is P.max_pool_take:
        return bool(operands[0].shape == operands[1].shape)
    if what is P.max_pool_put:
        made = tuple([n if m is None else m.out for m, n in zip(maps, sizes, strict=True)])
        return bool(operands[0].shape == (*source.shape[: source.ndim - len(maps)], *made))
    return True


def _are_labels(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    labels = params["labels"]
    x, y = operands
    if len(labels.left) != x.ndim or len(labels.right) != y.ndim:
        return False
    sizes = labels.sizes(x.shape, y.shape)
    return all(sizes[c] == n for c, n in zip(labels.left, x.shape, strict=True))


def _are_strides(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    """Whether every element that is shown is one of the operand."""
    if what is not P.as_strided:
        return True  # by the transposed one
    x: Abstract = operands[0]
    size, stride, offset, lead = (params[k] for k in ("size", "stride", "offset", "lead"))
    if not (_is_shape(size) and type(stride) is tuple and len(stride) == len(size) and _is_number(lead, 0, x.ndim)):
        return False
    if not all(_is_number(s, -(1 << 62), 1 << 62) for s in (*stride, offset)):
        return False
    return _lies_inside(offset, size, stride, math.prod(x.shape[lead:]))


def _lies_inside(offset: int, size: tuple[int, ...], stride: tuple[int, ...], count: int) -> bool:
    reach = [(n - 1) * s for n, s in zip(size, stride, strict=True)]
    first, last = offset + sum(min(r, 0) for r in reach), offset + sum(max(r, 0) for r in reach)
    return 0 in size or (first >= 0 and last < count)


def _are_places(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    """Of parts that are put together, as offset, shape and strides."""
    places, count = params["places"], math.prod(params["shape"])
    if type(places) is not tuple or len(places) != len(operands):
        return False
    for x, place in zip(operands, places, strict=True):
        if type(place) is not tuple or len(place) != 3:
            return False
        offset, size, stride = place
        if not (_is_shape(size) and size == x.shape and type(stride) is tuple and len(stride) == len(size)):
            return False
        if not all(_is_number(s, -(1 << 62), 1 << 62) for s in (*stride, offset)):
            return False
        if not _lies_inside(offset, size, stride, count):
            return False
    return True


def _is_shown(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    """Whether what is written through a view has the view's shape."""
    through, settings = params["through"], params["settings"]
    if not getattr(through, "is_view", False) or type(settings) is not dict:
        return False
    (shown,) = _derived(through, (operands[0],), settings)
    return shown.shape == operands[1].shape


def _has_window(what: Primitive, operands: list[Any], params: dict[str, Any]) -> bool:
    shape = params["shape"] if what is P.unfold_back else operands[0].shape
    return _is_number(params["window"], 0, shape[params["dim"]]) and _is_number(params["step"], 1, 1 << 62)


# By the name of a parameter, which means the same wherever it stands.
_CHECKS: dict[str, Callable[[Primitive, list[Any], dict[str, Any]], bool]] = {
    "shape": lambda what, operands, params: _is_shape(params["shape"]),
    "dim": _is_dim("dim"),
    "dim1": _is_dim("dim1"),
    "dim2": lambda what, operands, params: _is_dim("dim2")(what, operands, params) and params["dim1"] != params["dim2"],
    "dims": _are_dims,
    "index": _is_index,
    "geometry": _is_geometry,
    "maps": _are_maps,
    "labels": _are_labels,
    "stride": _are_strides,
    "places": _are_places,
    "through": _is_shown,
    "window": _has_window,
    "lead": lambda what, operands, params: _is_number(params["lead"], 0, operands[0].ndim),
    "shifts": lambda what, operands, params: len(params["shifts"]) == len(params["dims"]),
    "k": lambda what, operands, params: _is_number(params["k"], 1, operands[0].shape[params["dim"]]),
}


def _is_reshaped(x: Abstract, shape: tuple[int, ...]) -> bool:
    return math.prod(x.shape) == math.prod(shape)


def _is_spread(x: Abstract, shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return x.shape == tuple([n for d, n in enumerate(shape) if d not in dims])


def _has_rows(rows: Abstract, index: Abstract, count: int, skip: int | None, period: int) -> bool:
    return _is_number(count, 0, 1 << 62) and rows.shape[: index.ndim] == index.shape and index.dtype.kind in "iu"


def _is_table(table: Abstract, index: Abstract, skip: int | None, period: int) -> bool:
    is_skipped = skip is None or _is_number(skip, 0, 1 << 62)
    return table.ndim > 0 and index.dtype.kind in "iu" and is_skipped and _is_number(period, 1, 1 << 62)


def _are_targets(x: Abstract, target: Abstract, **params: Any) -> bool:
    return x.ndim > 1 and target.shape == (x.shape[0], *x.shape[2:]) and target.dtype.kind in "iu"


def _are_rows(x: Abstract, target: Abstract, **params: Any) -> bool:
    return target.shape[: x.ndim] == x.shape and target.dtype.kind in "iu"


def _is_pulled(e: Abstract, g: Abstract, target: Abstract, **params: Any) -> bool:
    return _are_targets(e, target) and g.shape in ((), target.shape)


def _are_alike(*xs: Abstract, **params: Any) -> bool:
    return len({x.shape for x in xs}) == 1


def _is_put(x: Abstract, values: Abstract, *positions: Abstract, **params: Any) -> bool:
    shown = (*broadcast(*positions), *x.shape[len(positions) :])
    return 0 < len(positions) <= x.ndim and broadcast(values, Abstract(shown, x.dtype)) == shown


# By the name of a primitive: how its operands fit each other.
_OWN: dict[str, Callable[..., bool]] = {
    "reshape": _is_reshaped,
    "broadcast_to": lambda x, shape: broadcast(x, Abstract(shape, x.dtype)) == shape,
    "spread": _is_spread,
    "embedding": _is_table,
    "gather_rows": _is_table,
    "scatter_rows": _has_rows,
    "pick_class": _are_targets,
    "nll": _are_targets,
    "cross_entropy": _are_targets,
    "place_class": lambda x, target, **params: x.shape == target.shape and target.dtype.kind in "iu",
    "nll_back": _are_rows,
    "fold_rows": lambda x, target, **params: x.shape == target.shape and target.dtype.kind in "iu",
    "spread_rows": _are_rows,
    "cross_entropy_back": _is_pulled,
    "softmax_back": _are_alike,
    "lattice": _are_alike,
    "ctc_scan": lambda emit, skip: skip.shape == emit.shape[1:],
    "log_softmax_back": _are_alike,
    "index_last": lambda *positions, shape: (
        all(p.dtype.kind in "iu" for p in positions) and len(positions) <= len(shape)
    ),
    "searchsorted": lambda sequence, values, right: sequence.ndim == 1 or sequence.shape[:-1] == values.shape[:-1],
    "index": lambda x, *positions: 0 < len(positions) <= x.ndim,
    "index_put": _is_put,
    "index_prod": _is_put,
    "index_amax": _is_put,
    "index_amin": _is_put,
    "index_back": lambda x, *positions, shape: (
        x.shape == (*broadcast(*positions), *shape[len(positions) :]) and 0 < len(positions) <= len(shape)
    ),
    "plane_take": lambda x, index, size: x.shape == (*index.shape[:-1], size),
    "plane_put": lambda y, index, size: y.shape == index.shape and _is_number(size, 0, 1 << 62),
    "cat": lambda *xs, dim: len({(*x.shape[:dim], *x.shape[dim + 1 :]) for x in xs}) == 1,
    "stack": lambda *xs, dim: len({x.shape for x in xs}) == 1,
    "tril": lambda x, diagonal: x.ndim >= 2,
    "triu": lambda x, diagonal: x.ndim >= 2,
}


def raise_unless_size(program: Program, memory: int) -> None:
    """Refuse a program whose values would take more memory than is allowed, at the time when they take most."""
    sizes = {n.number: _bytes(n) for n in program.inputs}
    sizes.update((n.number, _bytes(n)) for n, _ in program.captured)
    taken = sum(sizes.values())
    for place, instruction in enumerate(program.instructions):
        sizes.update((n.number, _bytes(n)) for n in instruction.results)
        taken += sum(_bytes(n) for n in instruction.results)
        if taken > memory:
            raise ExportError(
                f"a run would take {taken} bytes at instruction {place} (`{instruction.primitive.name}`), more than the "
                f"{memory} that are allowed; pass a larger max_memory if you trust the file"
            )
        taken -= sum(sizes.get(number, 0) for number in program._last_use[place])


def _bytes(name: Name) -> int:
    return math.prod(name.shape) * int(name.dtype.numpy.itemsize)
