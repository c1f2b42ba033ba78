"""Filling tensors with random numbers in place."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from lucid.api import rng
from lucid.api.inplace import random_fill
from lucid.api.random import (
    _floating,
    _greatest,
    _raise_if_negative,
    _trials,
    _whole,
    draw,
    stream_of,
    whole_numbers,
)
from lucid.api.rng import NORMAL, OPEN_UNIFORM, UNIFORM, Generator, fill
from lucid.arguments.out import memory_for_numbers, note_write
from lucid.arguments.promotion import cast
from lucid.core import arrays, dtypes, levels
from lucid.core.primitive import P, constant, element_type
from lucid.core.tensor import Tensor

_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy
_active = levels.active.get
Step = tuple[Any, ...]  # a primitive, and the numbers that it takes behind what is drawn


def _fill_type(self: Tensor, name: str) -> np.dtype[Any]:
    """The type to compute in, for a fill with floating-point numbers."""
    if self.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"{name}: the tensor must be floating-point, not {self.dtype}")
    return _F64 if self.np_dtype == _F64 else _F32


def _fill(
    self: Tensor, source: rng.Source, kind: np.dtype[Any], finish: Callable[[Any], Any], generator: Any, name: str
) -> Tensor:
    """Overwrite with random numbers that `finish` has brought into their distribution."""
    dtype = self.np_dtype
    converted = partial(_converted, finish, dtype)
    return random_fill(self, draw(source, self.shape, kind, generator, name, converted, dtype, self.device), name)


def _converted(finish: Callable[[Any], Any], dtype: np.dtype[Any], drawn: Any) -> Any:
    return finish(drawn).astype(dtype, copy=False)


def _fill_by_operations(
    self: Tensor, source: rng.Source, kind: np.dtype[Any], steps: tuple[Step, ...], generator: Any, name: str
) -> Tensor:
    """The same by primitives on tensors, which programs compute in their loops."""
    if _filled_in_place(self, source, steps, generator):
        note_write(self, name)
        return self
    drawn = draw(source, self.shape, kind, generator, name, device=self.device)
    for primitive, *numbers in steps:
        drawn = primitive(drawn, *numbers)
    return random_fill(self, cast(drawn, self.np_dtype), name)


def _filled_in_place(self: Tensor, source: rng.Source, steps: tuple[Step, ...], generator: Any) -> bool:
    """The same in the memory of the tensor, if nothing else is to happen there; whether it was done."""
    array = None if _active() else memory_for_numbers(self)
    if array is None or not fill(source, stream_of(generator), array):
        return False
    for primitive, *numbers in steps:
        operands = (array, *[constant(number, array.dtype) for number in numbers])
        if not arrays.call_into(primitive, array, operands, {}):
            arrays.assign(array, primitive.kernel(*operands))
    return True


def _number(value: Any) -> Any:
    return value if type(value) is float or not isinstance(value, (Tensor, np.generic)) else value.item()


def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers drawn evenly from [from_, to).

    >>> import lucid
    >>> x = lucid.empty(100).uniform_(2, 3)
    >>> bool((x >= 2).all() and (x < 3).all())
    True
    """
    low, high = float(_number(from_)), float(_number(to))
    if not low <= high or math.isinf(high - low):
        raise ValueError(f"uniform_: the range from {low} to {high} is not a finite range")
    kind = _floating(element_type(self), "uniform_")

    steps = () if (low, high) == (0.0, 1.0) else _stretching(low, high, kind)
    return _fill_by_operations(self, UNIFORM, kind, steps, generator, "uniform_")


def _stretching(low: float, high: float, kind: np.dtype[Any]) -> tuple[Step, ...]:
    """From [0, 1) to [low, high), also where the sum would be rounded up to `high`; complex numbers in both parts."""
    if kind in dtypes.COMPLEX:
        return (P.mul, high - low), (P.add, low * (1 + 1j))
    steps = (P.mul, high - low), (P.add, low)
    return steps if low == high else (*steps, (P.minimum, _below(low, high, kind)))


@lru_cache(64)
def _below(low: float, high: float, dtype: np.dtype[Any]) -> float:
    """The last number of a type before `high`."""
    return float(np.nextafter(dtype.type(high), dtype.type(low)))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with normal numbers.

    >>> import lucid
    >>> lucid.empty(2).normal_(5.0, 0.0)
    Tensor([5., 5.])
    """
    _raise_if_negative(std, "std", "normal_")
    kind = _floating(element_type(self), "normal_")
    mean, std = _number(mean), _number(std)

    steps = () if (mean, std) == (0.0, 1.0) else ((P.mul, std), (P.add, mean))
    return _fill_by_operations(self, NORMAL, kind, steps, generator, "normal_")


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers whose logarithms are normal.

    >>> import lucid
    >>> lucid.empty(2).log_normal_(0.0, 0.0)
    Tensor([1., 1.])
    """
    _raise_if_negative(std, "std", "log_normal_")
    kind = _fill_type(self, "log_normal_")
    shift, scale = kind.type(_number(mean)), kind.type(_number(std))
    return _fill(self, NORMAL, kind, partial(_log_normal, shift, scale), generator, "log_normal_")


def _log_normal(shift: Any, scale: Any, drawn: Any) -> Any:
    return np.exp(drawn * scale + shift)


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with waiting times for events that come at the rate `lambd`.

    >>> import lucid
    >>> bool((lucid.empty(100).exponential_() > 0).all())
    True
    """
    if not lambd > 0:
        raise ValueError(f"exponential_: the rate must be positive, got {lambd}")
    kind, rate = _fill_type(self, "exponential_"), float(-_number(lambd))
    return _fill_by_operations(self, OPEN_UNIFORM, kind, ((P.log,), (P.div, rate)), generator, "exponential_")


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers from the Cauchy distribution.

    >>> import lucid
    >>> lucid.empty(3).cauchy_().shape
    (3,)
    """
    if not sigma > 0:
        raise ValueError(f"cauchy_: sigma must be positive, got {sigma}")
    kind = _fill_type(self, "cauchy_")
    middle, width = kind.type(_number(median)), kind.type(_number(sigma))

    return _fill(self, OPEN_UNIFORM, kind, partial(_cauchy, middle, width), generator, "cauchy_")


def _cauchy(middle: Any, width: Any, drawn: Any) -> Any:
    number = drawn.dtype.type
    return np.tan((drawn - number(0.5)) * number(math.pi)) * width + middle


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with the number of trials up to the first success, each succeeding with probability `p`.

    >>> import lucid
    >>> lucid.empty(2).geometric_(1.0)
    Tensor([1., 1.])
    """
    p = float(_number(p))
    if not 0 < p <= 1:
        raise ValueError(f"geometric_: p must lie between 0 (excluded) and 1, got {p}")
    dtype = self.np_dtype
    kind = _F32 if dtype in dtypes.FLOATING and dtype != _F64 else _F64
    log_failure = kind.type(math.log1p(-p) if p < 1 else -math.inf)
    most = _greatest(dtype) if dtype.kind in "iu" else None
    return _fill(self, OPEN_UNIFORM, kind, partial(_waited, log_failure, most), generator, "geometric_")


def _waited(log_failure: Any, most: int | None, drawn: Any) -> Any:
    """The number of trials up to the first success."""
    trials = np.maximum(np.ceil(np.log(drawn) / log_failure), 1)
    return trials if most is None else np.minimum(trials, most)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 with probability `p` (a number, or a tensor that broadcasts), else 0.

    >>> import lucid
    >>> lucid.empty(2).bernoulli_(1.0)
    Tensor([1., 1.])
    """
    if element_type(self) is _F32 and (type(p) is float or type(p) is int) and 0 <= p <= 1:
        return _fill_by_operations(self, UNIFORM, _F32, ((P.lt, p),), generator, "bernoulli_")
    trials = _trials(self.shape, p, generator, "bernoulli_")
    return random_fill(self, cast(trials, self.np_dtype), "bernoulli_")


def random_(self: Tensor, from_: Any = None, to: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with whole numbers from `from_` up to but not including `to`.

    With one bound the numbers start at 0; with none they are all that the type holds exactly and that are not negative.

    >>> import lucid
    >>> x = lucid.empty(100).random_(5)
    >>> bool((x >= 0).all() and (x <= 4).all())
    True
    """
    if to is None:
        from_, to = 0, from_
    high = _greatest(self.np_dtype) + 1 if to is None else _whole(to, "random_")
    drawn = whole_numbers(self.shape, _whole(from_, "random_"), high, self.np_dtype, generator, "random_")
    return random_fill(self, drawn, "random_")
