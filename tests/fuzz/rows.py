"""Statements from the table of operations: a row with one of its samples, fed from the pool where shapes fit."""

import random
import warnings
from functools import cache
from types import EllipsisType
from typing import Any

import numpy as np
from checks import Slot, take_apart
from holes import NOT_A_GRADIENT
from samples import Make, Row, Sample
from table import ROWS

import lucid
from fuzz.pool import Pool
from fuzz.program import Array, array, is_float
from lucid import fft, linalg, masked, nn, special
from lucid.core.tensor import Tensor

HOMES = {
    "lucid": lucid, "lucid.linalg": linalg, "lucid.fft": fft, "lucid.special": special, "lucid.masked": masked,
    "lucid.nn.functional": nn.functional, "lucid.Tensor": Tensor,
}  # fmt: skip
MOST = 64  # elements of an operand
# Rows that are not statements of a program.
LEFT_OUT = {
    "apply_": "calls Python code on each element",
    "map_": "calls Python code on each element",
    "map2_": "calls Python code on each element",
    "set_": "gives a tensor the memory of another",
    "resize_": "shows memory that nobody has written",
    "resize_as_": "shows memory that nobody has written",
    "new_empty_strided": "shows memory that nobody has written",
    "dropout": "draws random numbers",
    "rrelu": "draws random numbers",
    "rrelu_": "draws random numbers",
    "write_view": "the memory of a view, as a primitive: writes in place reach it",
    "alias": "the memory of a view, as a primitive: detach reaches it",
}
USED = [row for row in ROWS if row.name not in LEFT_OUT]


class OtherSizes(Make):
    """Operands of other sizes: every dimension of one size becomes one of another, in the whole sample."""

    sizes: dict[int, int]

    def __call__(self, *shape: int) -> Array:
        return super().__call__(*(self.sizes.get(n, n) for n in shape))

    def spread(self, *shape: int) -> Array:
        return super().spread(*(self.sizes.get(n, n) for n in shape))


@cache
def public_names() -> dict[Any, str]:
    """The dotted name under which users find a function."""
    found: dict[Any, str] = {}
    for path, home in HOMES.items():
        for name in dir(home):
            value = None if name.startswith("_") else getattr(home, name, None)
            if callable(value):
                found.setdefault(value, f"{path}.{name}")
    return found


@cache
def call_text(name: str) -> str:
    """How a program calls the row."""
    row = BY_NAME[name]
    try:
        public = public_names().get(row.op)
    except TypeError:
        public = None
    return public or f"rows[{name!r}]"


BY_NAME = {row.name: row for row in ROWS}


@cache
def odds() -> list[float]:
    """How likely each row is: in-place forms reach what others reach, and programs for PyTorch leave out what it lacks."""
    forms = [0.4 if row.name.endswith("_") else 1.0 for row in USED]
    return [odd if torch_has(call_text(row.name)) else 1.7 * odd for odd, row in zip(forms, USED, strict=True)]


@cache
def torch_has(path: str) -> bool:
    """Whether PyTorch has a function of this name."""
    if not path.startswith("lucid."):
        return False
    try:
        import torch
    except ImportError:
        return False
    home: Any = torch
    for name in path.split(".")[1:]:
        home = getattr(home, name, None)
    return home is not None


@cache
def samples(name: str, dtype: str, seed: int, sizes: tuple[tuple[int, int], ...]) -> tuple[Sample, ...]:
    row = BY_NAME[name]
    make = OtherSizes(dtype, row.domain, seed)
    make.sizes = dict(sizes)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = tuple(row.samples(make))
        except Exception:  # samples are written for their own sizes
            return ()
    return tuple(s for s in found if _small(s))


def _small(sample: Sample) -> bool:
    arrays: list[Array] = []
    take_apart(sample.args, arrays)
    return all(a.size <= MOST for a in arrays)


def is_empty(sample: Sample) -> bool:
    return any(isinstance(a, Array) and not a.size for a in sample.args)


def in_place_name(row: Row) -> str:
    """The method that a row of an in-place form calls on a copy."""
    return row.name if row.inplace and hasattr(Tensor, row.name) else ""


def sized(choose: random.Random) -> tuple[tuple[int, int], ...]:
    """Which sizes become others: none, or some of them 1, or one another."""
    if choose.random() < 0.7:
        return ()
    return tuple((n, choose.choice((1, 1, 2, 3))) for n in (2, 3, 5) if choose.random() < 0.5)


def types(row: Row, dtype: str) -> str:
    """The type of the operands for a program of `dtype`."""
    kind = np.dtype(dtype).kind
    if kind == "c" and not row.complex:
        return "float64" if dtype == "complex128" else "float32"
    if not row.floats and row.ints:
        return row.ints[0]
    return dtype if row.floats else "complex128"


def add_row(pool: Pool, row: Row) -> bool:
    """Write one row as a statement."""
    choose = pool.choose
    dtype = types(row, pool.dtype)
    if row.ints and choose.random() < 0.06:
        dtype = choose.choice(row.ints)
    call, method = call_text(row.name), in_place_name(row)
    internal = call.startswith("rows") and not method  # its arguments are not checked, and fit one another
    found = samples(row.name, dtype, choose.randrange(3), () if internal else sized(choose))
    if not found:
        return False
    sample = choose.choice(found)
    if (not sample.smooth or is_empty(sample)) and choose.random() < 0.7:
        sample = choose.choice(found)
    arrays: list[Array] = []
    nest = take_apart(sample.args, arrays)
    changed = choose.random() < 0.2 and not internal
    names = [operand(pool, row, sample, a, internal) for a in arrays]
    args = [argument(pool, n, names, changed) for n in nest]
    kwargs = [f"{k}={argument(pool, v, names, changed)}" for k, v in sample.kwargs.items()]
    if method and isinstance(nest[0], Slot):
        target = target_of(pool, arrays[0], args[0])
        text = f"{target}.{method}({', '.join([*args[1:], *kwargs])})"
        in_torch = torch_has(f"lucid.Tensor.{method}")
    else:
        text, in_torch = f"{call}({', '.join([*args, *kwargs])})", torch_has(call)
    if pool.parity and not in_torch and choose.random() < 0.8:
        pool.forget()
        return False
    batchable = not ("vmap" in row.without and "by another name" not in row.without["vmap"]) and not row.unbatched
    return pool.add(text, row.name, row=row.name, batchable=batchable, in_torch=in_torch, detaches=cuts(row))


def cuts(row: Row) -> bool:
    """Whether derivatives are meant to be others than those of the values."""
    return "detach" in row.name or row.name in (*NOT_A_GRADIENT, "embedding", "embedding_bag", "sparse_embedding")


def target_of(pool: Pool, a: Array, text: str) -> str:
    """What an in-place form writes into: a value of the pool that has the shape, or a copy."""
    if pool.choose.random() < 0.4:
        found = pool.writable(lambda v: v.shape == a.shape and v.np_dtype == a.dtype)
        if found:
            return found
    return f"({text}).clone()"


def operand(pool: Pool, row: Row, sample: Sample, a: Array, internal: bool) -> str:
    """An expression for an operand: a new input, or something made of the pool that stays near the sample.

    What is not checked may take symmetry or order for granted, and stays as it is or nearly so.
    """
    choose = pool.choose
    if not is_float(a):
        return pool.leaf(a, a.dtype.kind not in row.unbatched)
    if not a.size or not sample.smooth or choose.random() < 0.4:
        return pool.leaf(a if internal else unusual(pool, a))
    name = pool.any_float(lambda v: v.shape == a.shape and v.np_dtype == a.dtype)
    if name is None or array(pool.values[name]).dtype != a.dtype:
        return pool.leaf(a)
    if internal:
        return f"({pool.leaf(a)} + 0.02 * {name}.sin())"
    low, high, gap = row.domain
    if low <= -2 and high >= 2 and not gap and choose.random() < 0.5 and np.abs(array(pool.values[name])).max() < 2.5:
        return name
    different = np.unique(array(pool.values[name])).size == a.size  # so that no matrix is singular
    if low > -2 and a.dtype.kind == "f" and not gap and different and low <= a.min() and a.max() <= high:
        return f"({round(high - low, 3)!r} * {name}.sigmoid() + {float(low)!r})"
    return f"({pool.leaf(a)} + 0.05 * {name}.sin())"


def unusual(pool: Pool, a: Array) -> Array:
    """Now and then an element that is not a number, infinite, zero or equal to another."""
    if pool.choose.random() > 0.04 or not a.size:
        return a
    value = pool.choose.choice((np.nan, np.inf, 0.0, a.reshape(-1)[0]))
    changed = np.array(a, order="K")
    changed[np.unravel_index(pool.choose.randrange(a.size), a.shape)] = value
    return changed


def argument(pool: Pool, value: Any, names: list[str], changed: bool) -> str:
    """An argument as source; numbers may become others."""
    if isinstance(value, Slot):
        return names[value]
    if type(value) in (list, tuple):
        inner = [argument(pool, v, names, changed) for v in value]
        return f"[{', '.join(inner)}]" if type(value) is list else f"({''.join(f'{i}, ' for i in inner)})"
    if changed and pool.choose.random() < 0.4:
        if type(value) is bool:
            return repr(not value)
        if type(value) is int:
            return repr(pool.choose.choice((0, 1, 1, 2, 3, -1)))
        if type(value) is float and np.isfinite(value):
            return repr(pool.choose.choice((value, value * 1.1, 0.1, 0.3)))
    return plain(pool, value)


def plain(pool: Pool, value: Any) -> str:
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if isinstance(value, EllipsisType):
        return "..."
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, lucid.dtype):
        return f"lucid.{value.name}"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    if value is None or type(value) in (bool, int, float, complex, str):
        return repr(value)
    return pool.constant(value)
