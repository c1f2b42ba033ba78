"""Random numbers: what `lucid.core.rng` makes, as tensors."""

import math
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from lucid.core import dtypes, rng
from lucid.core.device import as_device
from lucid.core.primitive import lift
from lucid.core.rng import Generator
from lucid.core.tensor import Tensor, shape_of
from lucid.ops import binary
from lucid.ops.creation import _sizes
from lucid.ops.inplace import data_dependent_fill
from lucid.ops.special_arrays import scipy_special

_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy
_NUMBERS = (bool, int, float, np.generic)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, and return it.

    >>> import lucid
    >>> _ = lucid.manual_seed(0); a = lucid.rand(2)
    >>> _ = lucid.manual_seed(0); bool((a == lucid.rand(2)).all())
    True
    """
    return rng.default_generator().manual_seed(seed)


def seed() -> int:
    """Seed the default generator by a number that the system chooses, and return that.

    >>> import lucid
    >>> lucid.seed() == lucid.initial_seed()
    True
    """
    return rng.default_generator().seed()


def initial_seed() -> int:
    """The seed of the default generator.

    >>> import lucid
    >>> _ = lucid.manual_seed(5)
    >>> lucid.initial_seed()
    5
    """
    return rng.default_generator().initial_seed()


def get_rng_state() -> tuple[int, int]:
    """The state of the default generator: its seed and its position in the stream.

    >>> import lucid
    >>> _ = lucid.manual_seed(5)
    >>> lucid.get_rng_state()
    (5, 0)
    """
    return rng.default_generator().get_state()


def set_rng_state(new_state: tuple[int, int]) -> None:
    """Bring the default generator to a state that `get_rng_state` gave.

    >>> import lucid
    >>> state = lucid.get_rng_state(); a = lucid.rand(2)
    >>> lucid.set_rng_state(state); bool((a == lucid.rand(2)).all())
    True
    """
    rng.default_generator().set_state(new_state)


def fork_rng() -> AbstractContextManager[Generator]:
    """A context in which seeding and drawing leave the default generator outside as it was.

    >>> import lucid
    >>> before = lucid.get_rng_state()
    >>> with lucid.fork_rng():
    ...     _ = lucid.manual_seed(0)
    >>> lucid.get_rng_state() == before
    True
    """
    return rng.forked()


def _stream(generator: Generator | None) -> Generator:
    if generator is None:
        return rng.default_generator()
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a lucid.Generator, not {type(generator).__name__}")
    return generator


def _floating(dtype: Any, name: str) -> np.dtype[Any]:
    chosen = dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)
    if chosen not in dtypes.DIFFERENTIABLE:
        raise TypeError(f"{name} makes floating-point or complex numbers, not {dtypes.of_numpy(chosen)}")
    return chosen


def _finished(array: Any, shape: tuple[int, ...], device: Any, requires_grad: bool) -> Tensor:
    if device is not None:
        as_device(device)
    out = Tensor._wrap(array.reshape(shape))
    return out.requires_grad_() if requires_grad else out


def _filled(
    make: Any, shape: tuple[int, ...], dtype: np.dtype[Any], generator: Any, device: Any, requires_grad: bool
) -> Tensor:
    return _finished(make(_stream(generator), math.prod(shape), dtype), shape, device, requires_grad)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers drawn evenly from [0, 1).

    >>> import lucid
    >>> x = lucid.rand(2, 3)
    >>> x.shape, bool((0 <= x).all() and (x < 1).all())
    ((2, 3), True)
    """
    return _filled(rng.uniform, _sizes(size, "rand"), _floating(dtype, "rand"), generator, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from the normal distribution of mean 0 and variance 1.

    >>> import lucid
    >>> lucid.randn(2, 3).shape
    (2, 3)
    """
    return _filled(rng.normal, _sizes(size, "randn"), _floating(dtype, "randn"), generator, device, requires_grad)


def rand_like(
    input: Any,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers drawn evenly from [0, 1), in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.rand_like(lucid.zeros(2, dtype=lucid.float64)).dtype
    lucid.float64
    """
    x = lift(input)
    kind = _floating(x.dtype if dtype is None else dtype, "rand_like")
    return _filled(rng.uniform, x.shape, kind, generator, device, requires_grad)


def randn_like(
    input: Any,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal numbers in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.randn_like(lucid.zeros(2, 3)).shape
    (2, 3)
    """
    x = lift(input)
    kind = _floating(x.dtype if dtype is None else dtype, "randn_like")
    return _filled(rng.normal, x.shape, kind, generator, device, requires_grad)


def _whole(value: Any, name: str) -> int:
    number = value.item() if isinstance(value, Tensor) else value
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name}: the bounds must be whole numbers, not {number!r}")
    return int(number.__index__())


def _greatest(dtype: np.dtype[Any]) -> int:
    """The largest number up to which a type holds every whole number."""
    if dtype == dtypes.BOOL:
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else 1 << rng._DIGITS[dtype]


def _raise_if_outside(low: int, high: int, dtype: np.dtype[Any], name: str) -> None:
    """Bounds must make sense, and every number between them must exist in the type."""
    if low >= high:
        raise ValueError(f"{name}: the range from {low} up to (not including) {high} is empty")
    if dtype in dtypes.COMPLEX:
        raise TypeError(f"{name}: whole numbers are drawn into integer or floating-point types, not complex ones")
    most = _greatest(dtype)
    least = 0 if dtype.kind in "bu" else -most - (dtype.kind == "i")
    if low < least or high - 1 > most:
        raise ValueError(f"{name}: {dtypes.of_numpy(dtype)} does not hold every number from {low} to {high - 1}")


def _integers(stream: Generator, shape: tuple[int, ...], low: int, high: int, dtype: np.dtype[Any], name: str) -> Any:
    _raise_if_outside(low, high, dtype, name)
    return rng.integers(stream, math.prod(shape), low, high).astype(dtype, copy=False).reshape(shape)


def randint(
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers from `low` (0 if left out) up to but not including `high`.

    >>> import lucid
    >>> x = lucid.randint(3, 10, (100,))
    >>> int(x.min()) >= 3, int(x.max()) <= 9
    (True, True)
    >>> lucid.randint(10, (2, 3)).shape
    (2, 3)
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint needs a size, as in randint(0, 10, (2, 3))")
    kind = dtypes.INT64 if dtype is None else dtypes.as_numpy(dtype)
    shape = _sizes((size,), "randint")
    drawn = _integers(_stream(generator), shape, _whole(low, "randint"), _whole(high, "randint"), kind, "randint")
    return _finished(drawn, shape, device, requires_grad)


def randint_like(
    input: Any,
    low: Any,
    high: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers as from `randint`, in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.randint_like(lucid.zeros(2, 3), 5).shape
    (2, 3)
    """
    x = lift(input)
    low, high = (0, low) if high is None else (low, high)
    return randint(
        low,
        high,
        x.shape,
        generator=generator,
        dtype=x.dtype if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from 0 to n - 1 in random order.

    >>> import lucid
    >>> sorted(lucid.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    kind = dtypes.INT64 if dtype is None else dtypes.as_numpy(dtype)
    count = _whole(n, "randperm")
    if count < 0:
        raise ValueError(f"randperm: n must not be negative, got {n}")
    if count:
        _raise_if_outside(0, count, kind, "randperm")
    order = np.argsort(rng.words(_stream(generator), count))
    return _finished(order.astype(kind, copy=False), (count,), device, requires_grad)


def _raise_if_negative(value: Any, what: str, name: str) -> None:
    """Checked where the value is at hand; inside vmap it is not."""
    found = value._array if type(value) is Tensor else value
    if not isinstance(found, Tensor) and np.any(np.less(found, 0)):
        raise ValueError(f"{name}: {what} must not be negative")


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers of given means and standard deviations: mean + std * noise, differentiable in both.

    Two numbers need a `size`; tensors broadcast and give the shape themselves.

    >>> import lucid
    >>> mean = lucid.tensor([0.0, 100.0], requires_grad=True)
    >>> lucid.normal(mean, 1.0).sum().backward()
    >>> mean.grad
    Tensor([1., 1.])
    """
    if isinstance(mean, _NUMBERS) and isinstance(std, _NUMBERS):
        if size is None:
            raise TypeError("normal: with numbers for mean and std a size is needed, as in normal(0.0, 1.0, (2, 3))")
        shape, kind = _sizes((size,), "normal"), _floating(dtype, "normal")
    else:
        if size is not None:
            raise TypeError("normal: the shape follows from the tensors; leave out size")
        mean, std = (x if isinstance(x, _NUMBERS) else lift(x) for x in (mean, std))
        shape = np.broadcast_shapes(shape_of(mean), shape_of(std))
        types = [x.np_dtype for x in (mean, std) if isinstance(x, Tensor)]
        kind = _floating(dtypes.promote_pair(types[0], types[-1]) if dtype is None else dtype, "normal")
    _raise_if_negative(std, "std", "normal")
    noise = _filled(rng.normal, shape, kind, generator, device, False)
    out = binary.add(mean, binary.mul(std, noise))
    out = out if out.np_dtype == kind else out.to(kind)
    return out.requires_grad_() if requires_grad else out


def _raise_unless_probabilities(p: Any, name: str) -> None:
    found = p._array if type(p) is Tensor else p
    if not isinstance(found, Tensor) and not np.all(np.greater_equal(found, 0) & np.less_equal(found, 1)):
        raise ValueError(f"{name}: probabilities must lie between 0 and 1")


def _trials(shape: tuple[int, ...], p: Any, generator: Generator | None, name: str) -> Tensor:
    """Where a uniform number falls below `p`."""
    _raise_unless_probabilities(p, name)
    kind = _F64 if isinstance(p, Tensor) and p.np_dtype == _F64 else _F32
    return binary.lt(_filled(rng.uniform, shape, kind, generator, None, False), p)


def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that `input` gives for each element (or with probability `p` everywhere), else 0.

    >>> import lucid
    >>> lucid.bernoulli(lucid.tensor([0.0, 1.0]))
    Tensor([0., 1.])
    """
    x = lift(input)
    if p is None and not x.is_floating_point():
        raise TypeError(f"bernoulli: probabilities must be floating-point, not {x.dtype}")
    return _trials(x.shape, x if p is None else p, generator, "bernoulli").to(x.dtype)


def poisson(input: Any, *, generator: Generator | None = None) -> Tensor:
    """Counts of events whose expected numbers are given by `input`.

    >>> import lucid
    >>> lucid.poisson(lucid.zeros(3))
    Tensor([0., 0., 0.])
    """
    x = lift(input)
    if not x.is_floating_point():
        raise TypeError(f"poisson: rates must be floating-point, not {x.dtype}")
    rates = x._concrete("poisson()").astype(np.float64)
    if not np.all(rates >= 0) or np.isinf(rates).any():
        raise ValueError("poisson: rates must be finite and not negative")
    chance = rng.open_uniform(_stream(generator), rates.size, _F64).reshape(rates.shape)
    return Tensor._wrap(_poisson_quantile(chance, rates).astype(x.np_dtype))


def _poisson_quantile(chance: Any, rates: Any) -> Any:
    """The smallest count whose cumulative probability reaches `chance`."""
    cumulative, inverse = scipy_special("pdtr"), scipy_special("pdtrik")
    safe = np.where(rates == 0, 1.0, rates)
    count = np.ceil(inverse(chance, safe))
    # The inverse is found by iteration: it may end just above a whole number and be rounded up too far.
    fewer = np.maximum(count - 1, 0)
    return np.where(rates == 0, 0, np.where(cumulative(fewer, safe) >= chance, fewer, count))


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with the probabilities that `input`, a row or rows of weights, gives up to a factor.

    >>> import lucid
    >>> lucid.multinomial(lucid.tensor([0.0, 3.0, 0.0]), 2, replacement=True)
    Tensor([1, 1])
    """
    x = lift(input)
    weights = x._concrete("multinomial()").astype(np.float64)
    _raise_unless_weights(weights, num_samples, replacement)
    rows = weights if weights.ndim == 2 else weights[None]
    pick = _with_replacement if replacement else _without_replacement
    found = pick(rows, int(num_samples), _stream(generator))
    return Tensor._wrap(found.reshape(*weights.shape[:-1], -1))


def _raise_unless_weights(weights: Any, num_samples: int, replacement: bool) -> None:
    if weights.ndim not in (1, 2) or not weights.shape[-1]:
        raise ValueError(f"multinomial: expected one or two dimensions of weights, not shape {weights.shape}")
    if num_samples <= 0:
        raise ValueError(f"multinomial: the number of samples must be positive, got {num_samples}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("multinomial: weights must be finite and not negative")
    possible = (weights > 0).sum(-1)
    if not possible.all():
        raise ValueError("multinomial: a row of weights has no positive one")
    if not replacement and num_samples > possible.min(initial=num_samples):
        raise ValueError(
            f"multinomial: {num_samples} samples without replacement, but only {possible.min()} weights are positive"
        )


def _with_replacement(rows: Any, num_samples: int, stream: Generator) -> Any:
    """By inverse transform: how many cumulative weights lie at or below a random part of the total."""
    chance = rng.uniform(stream, len(rows) * num_samples, _F64).reshape(len(rows), num_samples)
    found = np.empty(chance.shape, np.int64)
    for row, (weights, u) in enumerate(zip(rows, chance, strict=True)):
        sums = np.cumsum(weights)
        found[row] = np.searchsorted(sums, u * sums[-1], side="right")
        np.minimum(found[row], np.flatnonzero(weights)[-1], out=found[row])
    return found


def _without_replacement(rows: Any, num_samples: int, stream: Generator) -> Any:
    """By racing: of exponential waiting times, with the weights as rates, the shortest come first."""
    waits = -np.log(rng.open_uniform(stream, rows.size, _F64)).reshape(rows.shape)
    waits = np.divide(waits, rows, out=np.full(rows.shape, np.inf), where=rows > 0)
    first = np.argpartition(waits, num_samples - 1, axis=-1)[:, :num_samples]
    order = np.argsort(np.take_along_axis(waits, first, -1), axis=-1)
    return np.take_along_axis(first, order, -1)


def _fill_type(self: Tensor, name: str) -> np.dtype[Any]:
    """The type to compute in, for a fill with floating-point numbers."""
    if self.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"{name}: the tensor must be floating-point, not {self.dtype}")
    return _F64 if self.np_dtype == _F64 else _F32


def _open(self: Tensor, kind: np.dtype[Any], generator: Generator | None) -> Any:
    return rng.open_uniform(_stream(generator), self.numel(), kind).reshape(self.shape)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value


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
    kind = _floating(self.dtype, "uniform_")
    drawn = rng.uniform(_stream(generator), self.numel(), kind)
    if (low, high) != (0.0, 1.0) and kind not in dtypes.COMPLEX:
        drawn = _stretched(drawn, low, high)
    elif (low, high) != (0.0, 1.0):
        drawn = drawn * (high - low) + low * (1 + 1j)
    return data_dependent_fill(self, drawn.reshape(self.shape), "uniform_")


def _stretched(unit: Any, low: float, high: float) -> Any:
    """From [0, 1) to [low, high), also where the sum would be rounded up to `high`."""
    out = unit * unit.dtype.type(high - low) + unit.dtype.type(low)
    if low == high:
        return out
    return np.minimum(out, np.nextafter(unit.dtype.type(high), unit.dtype.type(low)), out=out)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with normal numbers.

    >>> import lucid
    >>> lucid.empty(2).normal_(5.0, 0.0)
    Tensor([5., 5.])
    """
    _raise_if_negative(std, "std", "normal_")
    kind = _floating(self.dtype, "normal_")
    drawn = rng.normal(_stream(generator), self.numel(), kind)
    mean, std = _number(mean), _number(std)
    if (mean, std) != (0.0, 1.0):
        drawn = drawn * kind.type(std) + kind.type(mean)
    return data_dependent_fill(self, drawn.reshape(self.shape), "normal_")


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers whose logarithms are normal.

    >>> import lucid
    >>> lucid.empty(2).log_normal_(0.0, 0.0)
    Tensor([1., 1.])
    """
    _raise_if_negative(std, "std", "log_normal_")
    kind = _fill_type(self, "log_normal_")
    drawn = rng.normal(_stream(generator), self.numel(), kind).reshape(self.shape)
    return data_dependent_fill(self, np.exp(drawn * kind.type(_number(std)) + kind.type(_number(mean))), "log_normal_")


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with waiting times for events that come at the rate `lambd`.

    >>> import lucid
    >>> bool((lucid.empty(100).exponential_() > 0).all())
    True
    """
    if not lambd > 0:
        raise ValueError(f"exponential_: the rate must be positive, got {lambd}")
    kind = _fill_type(self, "exponential_")
    return data_dependent_fill(self, np.log(_open(self, kind, generator)) / kind.type(-_number(lambd)), "exponential_")


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers from the Cauchy distribution.

    >>> import lucid
    >>> lucid.empty(3).cauchy_().shape
    (3,)
    """
    if not sigma > 0:
        raise ValueError(f"cauchy_: sigma must be positive, got {sigma}")
    kind = _fill_type(self, "cauchy_")
    angle = (_open(self, kind, generator) - kind.type(0.5)) * kind.type(math.pi)
    return data_dependent_fill(self, np.tan(angle) * kind.type(_number(sigma)) + kind.type(_number(median)), "cauchy_")


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with the number of trials up to the first success, each succeeding with probability `p`.

    >>> import lucid
    >>> lucid.empty(2).geometric_(1.0)
    Tensor([1., 1.])
    """
    p = float(_number(p))
    if not 0 < p <= 1:
        raise ValueError(f"geometric_: p must lie between 0 (excluded) and 1, got {p}")
    kind = _F32 if self.np_dtype in dtypes.FLOATING and self.np_dtype != _F64 else _F64
    log_failure = math.log1p(-p) if p < 1 else -math.inf
    trials = np.maximum(np.ceil(np.log(_open(self, kind, generator)) / kind.type(log_failure)), 1)
    if self.np_dtype.kind in "iu":
        trials = np.minimum(trials, _greatest(self.np_dtype))
    return data_dependent_fill(self, trials, "geometric_")


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 with probability `p` (a number, or a tensor that broadcasts), else 0.

    >>> import lucid
    >>> lucid.empty(2).bernoulli_(1.0)
    Tensor([1., 1.])
    """
    trials = _trials(self.shape, lift(p) if isinstance(p, np.ndarray) else p, generator, "bernoulli_")
    return data_dependent_fill(self, trials._concrete("bernoulli_()"), "bernoulli_")


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
    drawn = _integers(_stream(generator), self.shape, _whole(from_, "random_"), high, self.np_dtype, "random_")
    return data_dependent_fill(self, drawn, "random_")


METHODS = (
    "uniform_ normal_ log_normal_ exponential_ cauchy_ geometric_ bernoulli_ random_ bernoulli multinomial"
)  # fmt: skip

__all__ = [
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "fork_rng", "geometric_", "get_rng_state", "initial_seed",
    "log_normal_", "manual_seed", "multinomial", "normal", "normal_", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "random_", "randperm", "seed", "set_rng_state", "uniform_",
]  # fmt: skip
