"""Random bits: counter-based Philox streams, so that any device can make the same numbers.

The stream of seed `s` consists of blocks of four 64-bit words: block `b` is Philox4x64-10 of key `s` and counter
`b + 1`. A draw starts at a new block, and its element `i` is made from word `i` alone, or, for types of 32 bits and
less, from half `i % 2` of word `i // 2`, the low half first. Normal numbers come in pairs from pairs of those.
Nothing is ever drawn again, so element `i` depends on the seed, the position and `i` only.
"""

import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes, levels
from lucid.core.device import as_device
from lucid.core.fields import newest
from lucid.core.kernels import table as _table
from lucid.core.tensor import Tensor
from lucid.forks import after_fork
from lucid.ir import rehearsal

_WORDS_OF_BLOCK, _BITS_OF_BLOCK = 4, 256
_FAR = 1 << 62  # blocks, up to which positions are counted in 64 bits
_CHUNK = 1 << 15  # elements made at a time: temporaries stay in the cache (1.5 times faster for a million normals)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_DIGITS = {dtypes.bfloat16.numpy: 8, dtypes.float16.numpy: 11, _F32: 24, _F64: 53}
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LITTLE_WORD, _LITTLE_HALF = np.dtype("<u8"), np.dtype("<u4")

_generators: weakref.WeakSet["Generator"] = weakref.WeakSet()

Words = Any  # an array of random 64-bit words, which may be overwritten


class Recipe(NamedTuple):
    """How a backend makes numbers of a type from the bits of a stream, where it does so at once."""

    name: str
    dtype: np.dtype[Any]
    bits: int  # for each: 64, or halves of that
    digits: int  # that are made use of
    numbers: tuple[float, ...] = ()  # what else it takes


@cache
def _of(name: str, dtype: np.dtype[Any], digits: int) -> Recipe:
    return Recipe(name, dtype, 64 if dtype == _F64 else 32, digits)


_PLAIN = Recipe("words", np.dtype(np.uint64), 64, 64)


def _trace() -> Any:
    """The program that is being traced here, if there is one."""
    return levels.trace.get() if levels.tracing() else None


class Generator:
    """A stream of random numbers, given by a seed and a position; safe to share between threads.

    >>> import lucid
    >>> g = lucid.Generator().manual_seed(1)
    >>> lucid.equal(lucid.rand(3, generator=g), lucid.rand(3, generator=lucid.Generator(seed=1)))
    True
    """

    def __init__(self, device: Any = "cpu", *, seed: int = 0) -> None:
        self.device = as_device(device)
        self._seed: int | None = int(seed) % (1 << 64)  # None: to be chosen by the system at first use
        self._offset = 0
        self._bits: Any = None  # NumPy's generator of words, at `_offset`; None: somewhere else
        self._lock = threading.Lock()
        self._born = newest()
        _generators.add(self)
        if (trace := _trace()) is not None:
            SET_STATE.in_program(trace, self, (self._seed, 0))

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream of `seed` from its beginning."""
        if (trace := _trace()) is not None:
            SET_STATE.in_program(trace, self, (int(seed) % (1 << 64), 0))
            return self
        self._note()
        with self._lock:
            self._move(int(seed) % (1 << 64), 0)
        return self

    def seed(self) -> int:
        """Start a stream with a seed chosen by the system, and return that."""
        if _trace() is not None:
            raise RuntimeError(
                "seed: a program does not ask the system for a seed; use manual_seed, or seed before a run"
            )
        return self.manual_seed(_system_seed()).initial_seed()

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self.get_state()[0]

    def get_state(self) -> tuple[int, int]:
        """Seed and position; `set_state` takes them back."""
        if (trace := _trace()) is not None:
            state: Any = GET_STATE.in_program(trace, self)
            return state  # as good as the pair, for `set_state`
        return self._state()

    def set_state(self, state: tuple[int, int]) -> None:
        """Go to a position of a stream."""
        if (trace := _trace()) is not None:
            SET_STATE.in_program(trace, self, state)
            return
        try:
            seed, offset = (int(part) for part in state)
        except (TypeError, ValueError):
            raise TypeError(f"a state is a pair of whole numbers, as get_state() gives it, not {state!r}") from None
        if offset < 0:
            raise ValueError(f"the position in a stream must not be negative, got {offset}")
        self._note()
        with self._lock:
            if (seed, offset) != (self._seed, self._offset):
                self._move(seed % (1 << 64), offset)

    def clone_state(self) -> "Generator":
        """A generator of its own at the same position of the same stream.

        >>> import lucid
        >>> g = lucid.Generator().manual_seed(1)
        >>> lucid.equal(lucid.rand(3, generator=g.clone_state()), lucid.rand(3, generator=g))
        True
        """
        other = type(self)(self.device)
        other.set_state(self.get_state())
        return other

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: "Generator") -> None:
        """Go to where another generator is."""
        self.set_state(state.get_state())

    def get_offset(self) -> int:
        """The position in the stream."""
        return self.get_state()[1]

    def set_offset(self, offset: int) -> None:
        """Go to a position of the stream."""
        self.set_state((self.get_state()[0], offset))

    counter = property(get_offset, set_offset, doc="The position in the stream: it grows with draws.")
    set_seed = manual_seed

    def draw(
        self,
        count: int,
        dtype: np.dtype[Any],
        make: Callable[[Words], Any],
        per_word: int,
        recipe: Recipe | None = None,
    ) -> Any:
        """`count` elements by `make`, which turns each word of its argument into `per_word` elements.

        A backend that knows the recipe makes them at once.
        """
        out = None if recipe is None else self.at_once(recipe, (count,))
        if out is None:
            if levels.tracing():
                self._note()
            with self._lock:
                out = self._in_chunks(count, dtype, make, per_word)
        return out if out.dtype is dtype or out.dtype == dtype else out.astype(dtype)

    def _in_chunks(self, count: int, dtype: np.dtype[Any], make: Callable[[Words], Any], per_word: int) -> Any:
        if count <= _CHUNK:
            return make(self._words(self._advance(count, per_word)))[:count]
        out = np.empty(count, dtype)
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            out[start : start + size] = make(self._words(self._advance(size, per_word)))[:size]
        return out

    def at_once(self, recipe: Recipe, shape: tuple[int, ...], into: Any = None) -> Any:
        """Numbers of this shape by a backend that knows the recipe, in an array `into`; else None, and nothing is drawn."""
        if levels.tracing():
            self._note()
        with self._lock:
            first = self._offset
            out = self._from_block(recipe, first, shape, into)
            if out is not None:
                self._offset, self._bits = first - -out.size * recipe.bits // _BITS_OF_BLOCK, None
        return out

    def taken(self, blocks: int) -> tuple[int, int] | None:
        """The seed, and the position of so many blocks, behind which the generator moves; None if that is too far."""
        if levels.tracing():
            self._note()
        with self._lock:
            first = self._offset
            if first + blocks >= _FAR:
                return None
            self._offset, self._bits = first + blocks, None
            return self._chosen_seed(), first

    def _from_block(self, recipe: Recipe, first: int, shape: tuple[int, ...], into: Any = None) -> Any:
        """The same from a block on, wherever the generator is."""
        made = _table.get("draw_from_stream") if first < _FAR else None
        return None if made is None else made(recipe, self._chosen_seed(), first, shape, into)

    def _words(self, count: int) -> Words:
        """The words before the position, which has moved on by them."""
        first = self._offset - count // _WORDS_OF_BLOCK
        words = self._from_block(_PLAIN, first, (count,))
        if words is not None:
            return words
        bits, self._bits = self._positioned(first), None  # whoever interrupts this leaves the position to be found anew
        words = bits.random_raw(count)
        self._bits = bits
        return words

    def _advance(self, count: int, per_word: int) -> int:
        """Move on by the blocks that `count` elements take; the number of words in them."""
        blocks = -(-count // (per_word * _WORDS_OF_BLOCK))
        self._offset += blocks
        return blocks * _WORDS_OF_BLOCK

    def stream(self, trace: Any) -> "Stream":
        """What a program that is being traced calls this generator."""
        return Stream.of(self, trace)

    def _state(self) -> tuple[int, int]:
        with self._lock:
            return self._chosen_seed(), self._offset

    def _note(self) -> None:
        """Say that the state will change, to a computation after which it is put back."""
        if levels.tracing() and (before := rehearsal.moved.get()) is not None:
            before.setdefault(self, self._state())

    def _chosen_seed(self) -> int:
        if self._seed is None:
            self._seed = _system_seed()
        return self._seed

    def _move(self, seed: int, offset: int) -> None:
        self._seed, self._offset, self._bits = seed, offset, None

    def _positioned(self, offset: int) -> Any:
        if self._bits is not None:
            return self._bits
        from numpy.random import Philox  # not wanted by programs that draw nothing: it takes 10 ms to import

        return Philox(key=self._chosen_seed(), counter=offset)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._state()

    def __repr__(self) -> str:
        seed, offset = self._state()
        return f"Generator(seed={seed}, offset={offset})"


@after_fork
def _new_locks() -> None:
    for generator in list(_generators):
        generator._lock = threading.Lock()


def _rebuild(seed: int, offset: int) -> Generator:
    out = Generator()
    out.set_state((seed, offset))
    return out


def _system_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


_current: ContextVar[Generator | None] = ContextVar("generator", default=None)
_default = Generator()
_default._seed = None


def default_generator() -> Generator:
    """The generator that random functions use when none is given."""
    return _current.get() or _default


@contextmanager
def forked() -> Iterator[Generator]:
    """A copy of the default generator takes its place in this context, and is dropped at the end."""
    copy = Generator()
    copy.set_state(default_generator().get_state())
    token = _current.set(copy)
    try:
        yield copy
    finally:
        _current.reset(token)


class Stream(NamedTuple):
    """Whose numbers a program draws: those of a generator that it found, or of the default one where it runs."""

    found: Generator | None

    @staticmethod
    def of(generator: Generator, trace: Any) -> "Stream":
        is_default = generator is default_generator() and generator._born < trace.level
        return Stream(None if is_default else generator)

    @property
    def generator(self) -> Generator:
        return self.found or default_generator()

    @property
    def name(self) -> str:
        return "generator" if self.found else "default"


class TracedState:
    """The state of a generator in a program: `set_state` takes it back, and its numbers are known when it runs."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.value.tolist())

    def __getitem__(self, place: int) -> int:
        return int(self.value[place])


class _GetState:
    """The instruction that reads the state of a generator: seed and position."""

    name = "get_rng_state"
    multi = False

    @staticmethod
    def effects(stream: Stream) -> tuple[tuple[str, Any], ...]:
        return (("read", stream),)

    def in_program(self, trace: Any, generator: Generator) -> Any:
        stream = Stream.of(generator, trace)
        return TracedState(trace.perform(self, (), {"stream": stream}, [((2,), np.dtype(np.uint64))])[0])

    def __call__(self, *, stream: Stream) -> Tensor:
        state = stream.generator.get_state()
        return state.value if isinstance(state, TracedState) else Tensor._wrap(np.array(state, np.uint64))


class _SetState:
    """The instruction that moves a generator to a state."""

    name = "set_rng_state"
    multi = True

    @staticmethod
    def effects(stream: Stream) -> tuple[tuple[str, Any], ...]:
        return (("write", stream),)

    def in_program(self, trace: Any, generator: Generator, state: Any) -> None:
        value = state.value if isinstance(state, TracedState) else np.array(state, np.uint64)
        trace.perform(self, (value,), {"stream": Stream.of(generator, trace)}, [])

    def __call__(self, state: Tensor, *, stream: Stream) -> tuple[()]:
        trace = _trace()
        if trace is not None:
            self.in_program(trace, stream.generator, TracedState(state))
        else:
            stream.generator.set_state(tuple(state.tolist()))
        return ()


GET_STATE, SET_STATE = _GetState(), _SetState()


class Source(NamedTuple):
    """Random numbers as they come: `sample(generator, count, dtype)`, for which `words(count, dtype)` are used up.

    `recipes` has the types of which backends make them at once.
    """

    name: str
    sample: Callable[[Generator, int, Any], Any]
    words: Callable[[int, Any], int]
    recipes: Mapping[Any, Recipe] = MappingProxyType({})

    def blocks(self, count: int, dtype: Any) -> int:
        """By how much a draw moves its generator on."""
        return -(-self.words(count, dtype) // _WORDS_OF_BLOCK)


def numbers_from(source: Source, generator: Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of numbers as they come."""
    recipe = source.recipes.get(dtype)
    out = None if recipe is None else generator.at_once(recipe, shape)
    return source.sample(generator, math.prod(shape), dtype).reshape(shape) if out is None else out


def fill(source: Source, generator: Generator, array: Any) -> bool:
    """Draw into the memory of an array in row-major order, where a backend does that at once; whether it did."""
    recipe = source.recipes.get(array.dtype)
    return recipe is not None and generator.at_once(recipe, array.shape, array) is not None


def _words_of_floats(count: int, dtype: np.dtype[Any]) -> int:
    if dtype in dtypes.COMPLEX:
        return _words_of_floats(2 * count, dtypes.real_of(dtype))
    return count if dtype == _F64 else words_of_halves(count, dtype)


def words_of_halves(count: int, dtype: Any) -> int:
    """The words for elements that are made of half a word each."""
    return -(-count // 2)


def _halves(words: Words) -> Any:
    return (words if words.dtype == _LITTLE_WORD else words.astype(_LITTLE_WORD)).view(_LITTLE_HALF)


def words(generator: Generator, count: int, dtype: Any = None) -> Words:
    """Plain random 64-bit words."""
    return generator.draw(count, np.dtype(np.uint64), lambda w: w, 1)


def uniform(generator: Generator, count: int, dtype: np.dtype[Any]) -> Any:
    """Numbers in [0, 1): all multiples of 2^-24 for float32, of 2^-53 for float64, equally likely."""
    way = _UNIFORM.get(dtype)
    if way is None:  # complex
        return uniform(generator, 2 * count, dtypes.real_of(dtype)).view(dtype)
    return generator.draw(count, dtype, way[0], way[1], way[2])


def _unit_single(digits: int) -> Callable[[Words], Any]:
    def unit(w: Words) -> Any:
        halves = _halves(w)
        halves >>= 32 - digits
        out = halves.astype(_F32)
        out *= 2.0**-digits
        return out

    return unit


def _unit_double(w: Words) -> Any:
    w >>= np.uint64(11)
    out = w.astype(_F64)
    out *= 2.0**-53
    return out


# How words become numbers of a type, how many of each, and how backends do it.
_UNIFORM = {
    dtype: (_unit_double, 1, _of("uniform", _F64, digits))
    if dtype == _F64
    else (_unit_single(digits), 2, _of("uniform", _F32, digits))
    for dtype, digits in _DIGITS.items()
}


def open_uniform(generator: Generator, count: int, dtype: np.dtype[Any]) -> Any:
    """Numbers in (0, 1), for logarithms: finer steps near 0 than `uniform` takes. float32 or float64."""
    recipe = _OPEN_UNIFORM[dtype]
    if dtype == _F64:
        return generator.draw(count, dtype, lambda w: _open_unit(w >> np.uint64(11), dtype, 53), 1, recipe)
    return generator.draw(count, dtype, lambda w: _open_unit(_halves(w), _F32, 32), 2, recipe)


_OPEN_UNIFORM = {_F32: _of("open_uniform", _F32, 32), _F64: _of("open_uniform", _F64, 53)}


def _open_unit(bits: Any, dtype: np.dtype[Any], digits: int) -> Any:
    """The middles of 2^digits equal intervals, kept below 1, which some would be rounded to."""
    out = bits.astype(dtype)
    out += 0.5
    out *= 2.0**-digits
    return np.minimum(out, dtype.type(1 - 2.0 ** -_DIGITS[dtype]), out=out)


def normal(generator: Generator, count: int, dtype: np.dtype[Any]) -> Any:
    """Standard normal numbers; complex ones have variance 1 in all, half of it in each part."""
    way = _NORMAL.get(dtype)
    if way is None:  # complex
        real = dtypes.real_of(dtype)
        parts = normal(generator, 2 * count, real)
        parts *= real.type(math.sqrt(0.5))
        return parts.view(dtype)
    return generator.draw(count, dtype, way[0], way[1], way[2])


def _normal_single(w: Words) -> Any:
    return _box_muller(_halves(w).reshape(-1, 2), _F32, 32)


def _normal_double(w: Words) -> Any:
    return _box_muller((w >> np.uint64(11)).reshape(-1, 2), _F64, 53)


_NORMAL = {
    dtype: (_normal_double, 1, _of("normal", _F64, 53))
    if dtype == _F64
    else (_normal_single, 2, _of("normal", _F32, 32))
    for dtype in _DIGITS
}


def _box_muller(bits: Any, dtype: np.dtype[Any], digits: int) -> Any:
    """Two independent normals from two uniforms: a point in the plane by its distance and its angle."""
    distance = _open_unit(bits[:, 0], dtype, digits)
    np.log(distance, out=distance)
    distance *= -2
    np.sqrt(distance, out=distance)
    angle = bits[:, 1].astype(dtype)
    angle *= 2 * math.pi * 2.0**-digits
    out = np.empty(bits.shape, dtype)
    np.multiply(distance, np.cos(angle), out=out[:, 0])
    np.multiply(distance, np.sin(angle), out=out[:, 1])
    return out.reshape(-1)


def integers(generator: Generator, count: int, low: int, high: int) -> Any:
    """Whole numbers from `low` up to but not including `high`, as int64.

    The remainder of a word; for more than 2^32 numbers, the fraction that two words are of 2^128, scaled up. No number
    is more likely than another by a part of more than 2^-32.
    """
    span = high - low
    if span <= 1 << 32:
        found = generator.draw(count, np.dtype(np.uint64), lambda w: w % np.uint64(span), 1)
    elif span >= 1 << 64:
        found = words(generator, count)
    else:
        pairs = words(generator, 2 * count).reshape(-1, 2)
        found, below = _high_product(pairs[:, 0], span)
        carry = below + _high_product(pairs[:, 1], span)[0]
        found += carry < below
    return (found + np.uint64(low % (1 << 64))).view(np.int64)


def _high_product(w: Any, factor: int) -> tuple[Any, Any]:
    """The upper and lower 64 bits of w * factor, by products of halves that cannot overflow."""
    f0, f1 = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    w0, w1 = w & _LOW_HALF, w >> _HALF
    middle = w1 * f0 + (w0 * f0 >> _HALF)
    other = w0 * f1 + (middle & _LOW_HALF)
    return w1 * f1 + (middle >> _HALF) + (other >> _HALF), w * np.uint64(factor)


@lru_cache(64)
def integers_between(low: int, high: int) -> Source:
    """Whole numbers from `low` up to but not including `high`, in any type that holds them."""
    per_number = 2 if 1 << 32 < high - low < 1 << 64 else 1

    def sample(generator: Generator, count: int, dtype: np.dtype[Any]) -> Any:
        return integers(generator, count, low, high).astype(dtype, copy=False)

    recipes = {}
    if high - low <= 1 << 32 and abs(low) <= 1 << 53:  # numbers of recipes are doubles
        recipes[dtypes.INT64] = Recipe("integers", dtypes.INT64, 64, 64, (float(high - low), float(low)))
    return Source(f"integers({low}, {high})", sample, lambda count, dtype: per_number * count, recipes)


_SINGLE_AND_DOUBLE = (_F32, _F64)
UNIFORM = Source("uniform", uniform, _words_of_floats, {dtype: _UNIFORM[dtype][2] for dtype in _SINGLE_AND_DOUBLE})
OPEN_UNIFORM = Source("open_uniform", open_uniform, _words_of_floats, _OPEN_UNIFORM)
NORMAL = Source("normal", normal, _words_of_floats, {dtype: _NORMAL[dtype][2] for dtype in _SINGLE_AND_DOUBLE})
WORDS = Source("words", words, lambda count, dtype: count, {_PLAIN.dtype: _PLAIN})


def seeded(generator: Generator | int | None) -> Generator | None:
    """A generator, or a new one of a seed that stands for it."""
    return Generator(seed=generator) if isinstance(generator, int) else generator
