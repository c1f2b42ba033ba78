"""Random numbers: what `lucid.api.rng` makes, as tensors."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from lucid.api import rng
from lucid.api.creation import _at
from lucid.api.rng import NORMAL, OPEN_UNIFORM, UNIFORM, WORDS, Generator, _halves, default_generator, numbers_from
from lucid.arguments import promotion
from lucid.arguments.dims import sizes_from
from lucid.arguments.promotion import KEEP, lift_all, promote
from lucid.core import arrays, dtypes, levels
from lucid.core.device import as_device
from lucid.core.dtypes import default_float
from lucid.core.errors import ArgumentError
from lucid.core.kernels import table
from lucid.core.levels import tracing
from lucid.core.primitive import lift
from lucid.core.source_lines import here
from lucid.core.tensor import Tensor, is_plain, of_class, shape_of, wrapped
from lucid.ir.meta import abstract, without_elements
from lucid.kinds.batched import Batch, Batched
from lucid.ops import binary
from lucid.ops.abstract import Abstract
from lucid.ops.rules import P

_F32, _F64, _U64 = dtypes.float32.numpy, dtypes.float64.numpy, np.dtype(np.uint64)
_NUMBERS = (bool, int, float, np.generic)
_active = levels.active.get


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


def _examples(name: str, transforms: Sequence[Any], stream: Generator) -> list[Batch]:
    """The applications of vmap, from the outermost, in which each example draws numbers of its own."""
    batches = [t for t in transforms if isinstance(t, Batch)]
    for batch in batches:
        if batch.randomness == "error":
            raise RuntimeError(
                f"{name} was called inside vmap (at {here()}), which does not say what that means: pass "
                'randomness="different" for numbers of its own for each example, or "same" to draw once for all'
            )
        if batch.randomness == "same":
            batch.drawn.setdefault(id(stream), (stream, stream.get_state()))
    return [b for b in batches if b.randomness == "different"]


class Distribution(NamedTuple):
    """How a draw is made of a source's numbers of one type: by `finish`, if that is not None.

    It and the source are compared where a program is made for any number of rows, so they hold no functions that were made
    inside of others, but `partial` ones.
    """

    source: rng.Source
    kind: np.dtype[Any]
    finish: Callable[[Any], Any] | None
    caller: str

    @property
    def name(self) -> str:
        return self.source.name if self.finish is None else f"{self.caller.strip('_')} of {self.source.name}"


class _Draw:
    """The instruction that draws, anew in each run."""

    name = "draw"
    multi = False

    @staticmethod
    def effects(
        distribution: Distribution, shape: tuple[int, ...], dtype: np.dtype[Any], stream: rng.Stream
    ) -> tuple[tuple[str, Any], ...]:
        blocks = distribution.source.blocks(math.prod(shape), distribution.kind)
        return (("draw", (stream, blocks)),)

    @staticmethod
    def abstract(
        distribution: Distribution, shape: tuple[int, ...], dtype: np.dtype[Any], stream: rng.Stream
    ) -> list[Abstract]:
        """One tensor of numbers as their source makes them; what is made of these may be of another type."""
        return [Abstract(shape, dtype if distribution.finish else distribution.kind)]

    @staticmethod
    def in_program(
        trace: Any, distribution: Distribution, shape: tuple[int, ...], dtype: np.dtype[Any], generator: Generator
    ) -> Tensor:
        """The vmaps inside of the trace say what is drawn; those around a run of the program say it then."""
        inside = [t for t in levels.active.get() if t.level > trace.level]
        examples = _examples(distribution.caller, inside, generator)
        whole = (*[e.size for e in examples], *shape)
        stream = rng.Stream.of(generator, trace)
        params = {"distribution": distribution, "shape": whole, "dtype": dtype, "stream": stream}
        return _spread(trace.perform(DRAW, (), params, [(whole, dtype)])[0], examples)

    def __call__(
        self, *, distribution: Distribution, shape: tuple[int, ...], dtype: np.dtype[Any], stream: rng.Stream
    ) -> Tensor:
        source, kind, finish, caller = distribution
        return draw(source, shape, kind, stream.generator, caller, finish, dtype)


DRAW = _Draw()


def draw(
    source: rng.Source,
    shape: tuple[int, ...],
    kind: np.dtype[Any],
    generator: Generator | None,
    caller: str,
    finish: Callable[[Any], Any] | None = None,
    dtype: np.dtype[Any] | None = None,
    device: Any = None,
) -> Tensor:
    """Random numbers for this shape, or for each example of a vmap its own.

    `finish` turns an array of numbers of type `kind` into one of type `dtype`. In a program it runs anew each time.
    """
    if as_device(device).type == "meta":
        return abstract(shape, dtype or kind)
    stream = stream_of(generator)
    if tracing() and (trace := levels.trace.get()) is not None:
        distribution = Distribution(source, kind, finish, caller)
        return DRAW.in_program(trace, distribution, shape, dtype or kind, stream)
    active = _active()
    if not active:
        drawn = numbers_from(source, stream, shape, kind)
        return wrapped(drawn if finish is None else finish(drawn))
    examples = _examples(caller, active, stream)
    whole = (*[e.size for e in examples], *shape)
    drawn = numbers_from(source, stream, whole, kind)
    return _spread(Tensor._wrap(drawn if finish is None else finish(drawn)), examples)


def _spread(drawn: Tensor, examples: list[Batch]) -> Tensor:
    """A tensor in which the leading dimensions are the examples."""
    for example in examples:
        drawn = Batched.make(drawn, example.level)
    return drawn


def stream_of(generator: Any) -> Generator:
    """The generator that was given, or the default one."""
    if generator is None:
        return default_generator()
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a lucid.Generator, not {type(generator).__name__}")
    return generator


def _floating(dtype: Any, name: str) -> np.dtype[Any]:
    if dtype is None:
        return default_float()
    if dtype is _F32 or dtype is _F64:
        return dtype
    chosen = dtypes.as_numpy(dtype)
    if chosen not in dtypes.DIFFERENTIABLE:
        raise TypeError(f"{name} makes floating-point or complex numbers, not {dtypes.of_numpy(chosen)}")
    return chosen


def _finished(out: Tensor, device: Any, requires_grad: bool) -> Tensor:
    if as_device(device).type == "meta":
        out = without_elements(out)
    return out.requires_grad_() if requires_grad else out


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
    drawn = draw(UNIFORM, sizes_from(size, "rand"), _floating(dtype, "rand"), generator, "rand", None, None, device)
    return drawn.requires_grad_() if requires_grad else drawn


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
    drawn = draw(NORMAL, sizes_from(size, "randn"), _floating(dtype, "randn"), generator, "randn", None, None, device)
    return drawn.requires_grad_() if requires_grad else drawn


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
    place = _at(x, device)
    drawn = draw(UNIFORM, x.shape, kind, generator, "rand_like", device=place)
    return drawn.requires_grad_() if requires_grad else drawn


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
    place = _at(x, device)
    drawn = draw(NORMAL, x.shape, kind, generator, "randn_like", device=place)
    return drawn.requires_grad_() if requires_grad else drawn


def _whole(value: Any, name: str) -> int:
    number = value.item() if isinstance(value, Tensor) else value
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name}: the bounds must be whole numbers, not {number!r}")
    return int(number.__index__())


@cache
def _greatest(dtype: np.dtype[Any]) -> int:
    """The largest number up to which a type holds every whole number."""
    if dtype == dtypes.BOOL:
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else 1 << rng._DIGITS[dtype]


def _raise_if_outside(low: int, high: int, dtype: np.dtype[Any], name: str) -> None:
    """Bounds must make sense, and every number between them must exist in the type."""
    if low >= high:
        raise ArgumentError(f"{name}: the range from {low} up to (not including) {high} is empty")
    if dtype in dtypes.COMPLEX:
        raise TypeError(f"{name}: whole numbers are drawn into integer or floating-point types, not complex ones")
    most = _greatest(dtype)
    least = 0 if dtype.kind in "bu" else -most - (dtype.kind == "i")
    if low < least or high - 1 > most:
        raise ArgumentError(f"{name}: {dtypes.of_numpy(dtype)} does not hold every number from {low} to {high - 1}")


def whole_numbers(
    shape: tuple[int, ...], low: int, high: int, dtype: np.dtype[Any], generator: Generator | None, name: str
) -> Tensor:
    """Numbers from `low` up to but not including `high`."""
    _raise_if_outside(low, high, dtype, name)
    source = rng.integers_between(low, high)
    kind = dtypes.INT64 if dtypes.INT64 in source.recipes else dtype
    return promotion.cast(draw(source, shape, kind, generator, name), dtype)


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
    shape = sizes_from((size,), "randint")
    drawn = whole_numbers(shape, _whole(low, "randint"), _whole(high, "randint"), kind, generator, "randint")
    return _finished(drawn, device, requires_grad)


def randint_like(
    input: Any,
    low: Any = None,
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
    >>> int(lucid.randint_like(lucid.zeros(9), high=2).max()) < 2
    True
    """
    x = lift(input)
    low, high = (0, low) if high is None else (low or 0, high)
    if high is None:
        raise TypeError("randint_like needs a bound, as in randint_like(x, 10) or randint_like(x, high=10)")
    kind = x.np_dtype if dtype is None else dtypes.as_numpy(dtype)
    bounds = _whole(low, "randint_like"), _whole(high, "randint_like")
    return _finished(whole_numbers(x.shape, *bounds, kind, generator, "randint_like"), device, requires_grad)


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
        raise ArgumentError(f"randperm: n must not be negative, got {n}")
    if count:
        _raise_if_outside(0, count, kind, "randperm")

    drawn = draw(WORDS, (count,), _U64, generator, "randperm", partial(_order, kind), kind)
    return _finished(drawn, device, requires_grad)


def _order(kind: np.dtype[Any], words: Any) -> Any:
    """The order that sorts random words."""
    found = words.argsort()
    return found if found.dtype == kind else found.astype(kind)


def _raise_if_negative(value: Any, what: str, name: str) -> None:
    """Checked where the value is at hand; inside vmap it is not."""
    if type(value) is float and value >= 0:
        return
    if arrays.has_negative(value._array) if is_plain(value) else not isinstance(value, Tensor) and value < 0:
        raise ArgumentError(f"{name}: {what} must not be negative")


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
        shape, kind = sizes_from((size,), "normal"), _floating(dtype, "normal")
    else:
        if size is not None:
            raise TypeError("normal: the shape follows from the tensors; leave out size")
        mean, std = (x if isinstance(x, _NUMBERS) else lift(x) for x in (mean, std))
        shape = np.broadcast_shapes(shape_of(mean), shape_of(std))
        types = [x.np_dtype for x in (mean, std) if isinstance(x, Tensor)]
        kind = _floating(promotion.promote_pair(types[0], types[-1]) if dtype is None else dtype, "normal")
    _raise_if_negative(std, "std", "normal")
    noise = _finished(draw(NORMAL, shape, kind, generator, "normal"), device, False)
    out = binary.add(mean, binary.mul(std, noise))
    out = out if out.np_dtype == kind else out.to(kind)
    return out.requires_grad_() if requires_grad else out


def _raise_unless_probabilities(p: Any, name: str) -> None:
    if not (arrays.are_within(p._array, 0, 1) if is_plain(p) else isinstance(p, Tensor) or 0 <= p <= 1):
        raise ArgumentError(f"{name}: probabilities must lie between 0 and 1")


def _trials(shape: tuple[int, ...], p: Any, generator: Generator | None, name: str) -> Tensor:
    """Where a uniform number falls below `p`."""
    p = p if isinstance(p, _NUMBERS) else lift(p)
    _raise_unless_probabilities(p, name)
    kind = _F64 if isinstance(p, Tensor) and p.np_dtype == _F64 else _F32
    return binary.lt(draw(UNIFORM, shape, kind, generator, name), p)


def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that `input` gives for each element (or with probability `p` everywhere), else 0.

    >>> import lucid
    >>> lucid.bernoulli(lucid.tensor([0.0, 1.0]))
    Tensor([0., 1.])
    """
    x = lift(input)
    if p is None and not x.is_floating_point():
        raise TypeError(f"bernoulli: probabilities must be floating-point, not {x.dtype}")
    return promotion.cast(of_class((x,), _trials(x.shape, x if p is None else p, generator, "bernoulli")), x.np_dtype)


def _followed_no_further(input: Any) -> Tensor:
    """A tensor in double precision by which draws have no derivative."""
    x = lift(input)
    return promotion.cast(x if is_plain(x) and not x.requires_grad else x.detach(), _F64)


def poisson(input: Any, *, generator: Generator | None = None) -> Tensor:
    """Counts of events whose expected numbers are given by `input`.

    >>> import lucid
    >>> lucid.poisson(lucid.zeros(3))
    Tensor([0., 0., 0.])
    """
    x = lift(input)
    if not x.is_floating_point():
        raise TypeError(f"poisson: rates must be floating-point, not {x.dtype}")
    chance = draw(OPEN_UNIFORM, x.shape, _F64, generator, "poisson")
    return promotion.cast(P.poisson_quantile(chance, _followed_no_further(x)), x.np_dtype)


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with the probabilities that `input`, a row or rows of weights, gives up to a factor.

    >>> import lucid
    >>> lucid.multinomial(lucid.tensor([0.0, 3.0, 0.0]), 2, replacement=True)
    Tensor([1, 1])
    """
    x = _followed_no_further(input)
    if x.ndim not in (1, 2) or not x.shape[-1]:
        raise ArgumentError(f"multinomial: expected one or two dimensions of weights, not shape {x.shape}")
    if num_samples <= 0:
        raise ArgumentError(f"multinomial: the number of samples must be positive, got {num_samples}")
    count = int(num_samples)
    source, shape = (UNIFORM, (*x.shape[:-1], count)) if replacement else (OPEN_UNIFORM, x.shape)
    if is_plain(x):
        table["require_weights"](x._array, count, replacement)  # before anything is drawn
    chance = draw(source, shape, _F64, generator, "multinomial")
    return P.weighted_pick(x, chance, count=count, replacement=replacement)


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Tensor:
    """The number of successes in `count` trials, each with probability `prob`; both broadcast.

    >>> import lucid
    >>> lucid.binomial(lucid.tensor([10.0, 10.0]), lucid.tensor([0.0, 1.0]))
    Tensor([ 0., 10.])
    """
    n, p = promote("binomial", lift_all(count, prob), KEEP)
    if n.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"binomial: counts and probabilities must be floating-point, not {n.dtype}")
    shape = np.broadcast_shapes(n.shape, p.shape)
    chance = rand(*shape, dtype=dtypes.float64, generator=generator)
    return P.binomial_quantile(chance, _followed_no_further(n), _followed_no_further(p)).to(n.np_dtype)


def mask(shape: tuple[int, ...], p: float, dtype: Any, kept: float = 1.0, device: Any = None) -> Tensor:
    """0 with probability p, else `kept`: from 32 random bits for each element, drawn as `lucid.rand` draws.

    >>> import lucid
    >>> from lucid.api.random import mask
    >>> sorted(set(mask((1000,), 0.25, lucid.float32, kept=4.0).tolist()))
    [0.0, 4.0]
    """
    target = dtypes.as_numpy(dtype)
    kind = _F64 if target in (_F64, dtypes.complex128.numpy) else _F32
    bound, number = np.uint32(min(round(p * 2**32), 2**32 - 1)), kind.type(kept)
    recipe = rng.Recipe("mask", kind, 32, 32, (float(bound), float(number)))

    source = rng.Source(f"mask({p})", partial(_kept, kind, bound, number), rng.words_of_halves, {kind: recipe})
    out = draw(source, shape, kind, None, "dropout", device=device)
    return out if kind == target else out.to(target)


def _kept(kind: np.dtype[Any], bound: Any, number: Any, stream: Generator, count: int, _: Any) -> Any:
    return stream.draw(count, kind, lambda words: np.multiply(_halves(words) >= bound, number), 2)
