"""Random numbers as vector code: blocks of Philox4x64-10, and what turns their bits into numbers.

See `lucid.api.rng` for what is drawn: element i is made from word i of the stream, or from half i of its words. Words
are made one block after the other, some blocks at a time, and then turned into numbers by vectors.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.codegen.bodies import type_of
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.vectors import COUNT, Function, Type, Value

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B  # of the keys from one round to the next
_ROUNDS = 10
_WORDS = 4  # of a block
_BLOCKS = 64  # that are made at a time
_WIDE = Type("i128", 1, False)


class Draw(NamedTuple):
    """Numbers of a type, made from so many bits each: 64, or halves of that."""

    name: str
    dtype: np.dtype[Any]
    bits: int
    digits: int  # that are made use of

    @property
    def lanes(self) -> int:
        return 8 if max(self.bits, 8 * self.dtype.itemsize) > 32 else 16


def _product(f: Function, x: Value, factor: int) -> tuple[Value, Value]:
    """The upper and the lower 64 bits of a product."""
    wide = f.write(f"zext i64 {x.text} to i128", _WIDE) * factor
    upper = f.write(f"trunc i128 {(wide >> 64).text} to i64", COUNT)
    return upper, f.write(f"trunc i128 {wide.text} to i64", COUNT)


def _block(f: Function, key: Value, counter: Value) -> Sequence[Value]:
    """The words of the block of a counter."""
    zero = f.constant(0, COUNT)
    words, other = [counter, zero, zero, zero], 0
    for _ in range(_ROUNDS):
        (upper, lower), (upper_2, lower_2) = (_product(f, words[2 * k], m) for k, m in enumerate(_MULTIPLIERS))
        words = [upper_2 ^ words[1] ^ key, lower_2, upper ^ words[3] ^ other, lower]
        key, other = key + _STEPS[0], (other + _STEPS[1]) % (1 << 64)
    return words


def _numbers(f: Function, draw: Draw, bits: Value) -> Value:
    """The upper digits of bits as numbers."""
    kept = bits
    if draw.digits < draw.bits:  # no sign is lost, and more processors convert numbers that have one
        kept = Value(f, (bits >> (draw.bits - draw.digits)).text, bits.type.with_(bits.type.of))
    return f.convert(kept, type_of(draw.dtype))


def _uniform(f: Function, draw: Draw, bits: Value) -> Value:
    """In [0, 1)."""
    return _numbers(f, draw, bits) * 2.0**-draw.digits


def _open_uniform(f: Function, draw: Draw, bits: Value) -> Value:
    """The middles of equal intervals, kept below 1, which some would be rounded to."""
    below = 1 - 2.0 ** -(np.finfo(draw.dtype).nmant + 1)
    return f.minimum((_numbers(f, draw, bits) + 0.5) * 2.0**-draw.digits, below)


def _normal(f: Function, draw: Draw, bits: Value) -> Value:
    """Box and Muller's: from two uniform numbers a point in the plane, by its distance and its angle."""
    n = bits.type.lanes // 2
    first, second = (f.shuffled(bits, bits, range(k, 2 * n, 2)) for k in (0, 1))
    distance = f.sqrt(FUNCTIONS["log"](f, _open_uniform(f, draw, first)) * -2.0)
    angle = _numbers(f, draw, second) * (2 * math.pi * 2.0**-draw.digits)
    pair = [distance * FUNCTIONS[name](f, angle) for name in ("cos", "sin")]
    return f.shuffled(pair[0], pair[1], [k for i in range(n) for k in (i, n + i)])


def _mask(f: Function, draw: Draw, bits: Value) -> Value:
    """Where bits are not below the first number that a call gives, the second one, and 0 elsewhere."""
    bound, kept = (f.entry("numbers", k, Type("double")) for k in (0, 1))
    type = type_of(draw.dtype).wide(bits.type.lanes)
    limit = f.convert(f.convert(bound, COUNT), Type("i32", 1, False))
    number = f.constant(f.convert(kept, type_of(draw.dtype)), type)
    return f.select(bits >= f.constant(limit, bits.type), number, f.constant(0.0, type))


def _integers(f: Function, draw: Draw, bits: Value) -> Value:
    """What is left of words after division by the first number that a call gives, added to the second one."""
    span, low = (f.convert(f.entry("numbers", k, Type("double")), COUNT) for k in (0, 1))
    rest = bits.rest(f.constant(f.convert(span, Type("i64", 1, False)), bits.type))
    return f.convert(rest, type_of(draw.dtype)) + f.constant(low, type_of(draw.dtype).wide(bits.type.lanes))


MAKERS: dict[str, Callable[[Function, Draw, Value], Value]] = {
    "words": lambda f, draw, bits: bits,
    "uniform": _uniform,
    "open_uniform": _open_uniform,
    "normal": _normal,
    "mask": _mask,
    "integers": _integers,
}


def stream(draw: Draw, name: str) -> Function:
    """The function `name(out, key, first, count, numbers)`: so many numbers from the block `first` of a stream on."""
    f = Function(name, [("out", "ptr"), ("key", "i64"), ("first", "i64"), ("count", "i64"), ("numbers", "ptr")])
    lanes = 2 * draw.lanes if draw.name == "normal" else draw.lanes
    size, source = type_of(draw.dtype).bytes, Type(f"i{draw.bits}", lanes, False)
    per_block = _WORDS * 64 // draw.bits
    words, last = f.room(_WORDS * _BLOCKS, COUNT), f.room(lanes, type_of(draw.dtype))
    f.clear(words, 8 * _WORDS * _BLOCKS)
    key, first, count = (f.argument(n) for n in ("key", "first", "count"))

    def chunk(done: Value) -> Sequence[Value]:
        some = f.minimum(count - done, f.constant(_BLOCKS * per_block, COUNT))
        begin = first + done.quotient(per_block) + 1

        def block(b: Value) -> Sequence[Value]:
            for k, word in enumerate(_block(f, key, begin + b)):
                f.store(word, f.beyond(words, b * (8 * _WORDS) + 8 * k).text)
            return []

        def numbers(i: Value) -> Value:
            return MAKERS[draw.name](f, draw, f.load(f.beyond(words, i * (draw.bits // 8)).text, source))

        def vector(i: Value) -> Sequence[Value]:
            f.store(numbers(i), f.beyond(f.argument("out"), (done + i) * size).text)
            return []

        def rest(i: Value) -> Sequence[Value]:
            f.store(numbers(i), last.text)
            f.copy(f.beyond(f.argument("out"), (done + i) * size), last, (some - i) * size)
            return []

        f.loop((some + (per_block - 1)).quotient(per_block), 1, block)
        whole = some & -lanes
        f.loop(whole, lanes, vector)
        f.loop(some, lanes, rest, start=whole)
        return []

    f.loop(count, _BLOCKS * per_block, chunk)
    f.effect("ret void")
    return f
