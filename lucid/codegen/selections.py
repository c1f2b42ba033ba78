"""The first few elements in order, without sorting: one pass, in which few elements enter a short list.

Elements are compared by integers that are in the same order: nan is above all numbers, and both zeros are equal.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.codegen.bodies import NARROW, type_of
from lucid.codegen.folds import spaced
from lucid.codegen.vectors import COUNT, Function, Type, Value

MOST = 64  # elements of a list
_BLOCK = 256  # elements of a buffer


class SelectionPlan:
    """A selection among elements of a type, and the type of the integers that stand for them."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.element = type_of(dtype)
        self.key = Type("i64" if dtype.itemsize > 4 else "i32")
        self.lanes = 8 if dtype.itemsize > 4 else 16

    def keys(self, f: Function, x: Value) -> Value:
        """Integers in the order of elements."""
        top = 2 ** (self.key.bits - 1) - 1
        if x.type.of in NARROW.values():
            x = f.convert(x, Type("float"))
        if x.type.is_float:
            bits = f.bits(x + 0.0)
            return f.select(x.is_nan(), top, bits ^ ((bits >> (self.key.bits - 1)) & top))
        is_unsigned = not x.type.is_signed and x.type.bits == self.key.bits
        whole = f.convert(x, self.key)
        return whole ^ (-top - 1) if is_unsigned else whole


def select(plan: SelectionPlan, name: str) -> Function:
    """`name(values, value_step, places, step, x, stride, count, k, turn)`: the k elements with the largest integers.

    Of equal elements the first one comes first. Where all bits of `turn` are set, the smallest are chosen, and `k` is
    not 0. They are written at one distance, and their places at the other.
    """
    results = [("values", "ptr"), ("value_step", "i64"), ("places", "ptr"), ("step", "i64")]
    f = Function(name, [*results, ("x", "ptr"), ("stride", "i64"), ("count", "i64"), ("k", "i64"), ("turn", "i64")])
    x, stride, count, k = [f.argument(n) for n in ("x", "stride", "count", "k")]
    lanes, size = plan.lanes, plan.element.bytes
    turn = f.spread(f.convert(f.argument("turn"), plan.key), lanes)
    chosen = _List(f, plan, k)
    buffer, keys = f.room(_BLOCK + lanes, plan.element), f.room(lanes, plan.key)
    is_dense = stride.equals(size)

    def block(done: Value) -> Sequence[Value]:
        chunk = f.minimum(count - done, _BLOCK)
        is_direct = is_dense & (chunk & (lanes - 1)).equals(0)
        f.clear(f.beyond(buffer, (chunk & -lanes) * size), lanes * size)  # behind the last element
        spaced(f, x, stride, plan.element, buffer, done, f.select(is_direct, 0, chunk))
        source = f.select(is_direct, f.beyond(x, done * size), buffer)

        def vector(i: Value) -> Sequence[Value]:
            place = done + i
            found = plan.keys(f, f.load(f.beyond(source, i * size).text, plan.element.wide(lanes))) ^ turn
            enter, on = f.fresh("enter"), f.fresh("on")
            f.branch(f.any(found > chosen.least()) | (place < k), enter, on)
            f.begin(enter)
            f.store(found, keys.text)
            f.loop(f.minimum(chunk - i, lanes), 1, lambda j: single(place + j, j))
            f.jump(on)
            f.begin(on)
            return []

        def single(place: Value, j: Value) -> Sequence[Value]:
            key = f.load(f.beyond(keys, j * plan.key.bytes).text, plan.key)
            enter, on = f.fresh("enter"), f.fresh("on")
            f.branch((key > chosen.least()) | (place < k), enter, on)
            f.begin(enter)
            chosen.insert(key, place)
            f.jump(on)
            f.begin(on)
            return []

        f.loop(chunk, lanes, vector)
        return []

    f.loop(count, _BLOCK, block)
    chosen.copy(x, stride, plan.element)
    f.effect("ret void")
    return f


class _List:
    """The best keys so far, with the largest one first, and their places."""

    def __init__(self, f: Function, plan: SelectionPlan, k: Value) -> None:
        self.f, self.key, self.k = f, plan.key, k
        self.keys, self.places = f.room(MOST, plan.key), f.room(MOST, COUNT)
        f.clear(self.keys, MOST * plan.key.bytes)
        self.end = f.beyond(self.keys, (k - 1) * plan.key.bytes)

    def least(self) -> Value:
        """The key that must be beaten, once there are as many as are asked for."""
        return self.f.load(self.end.text, self.key)

    def _put(self, at: Value, key: Value, place: Value) -> None:
        self.f.store(key, self.f.beyond(self.keys, at * self.key.bytes).text)
        self.f.store(place, self.f.beyond(self.places, at * 8).text)

    def insert(self, key: Value, place: Value) -> None:
        """Put an element behind those that are as good; worse ones move on, and the last one is dropped."""
        f = self.f
        last = f.minimum(place, self.k - 1)

        def move(t: Value, at: Value) -> Sequence[Value]:
            before = last - t - 1
            other = f.load(f.beyond(self.keys, before * self.key.bytes).text, self.key)
            other_place = f.load(f.beyond(self.places, before * 8).text, COUNT)
            is_worse = other < key
            self._put(at, f.select(is_worse, other, key), f.select(is_worse, other_place, place))
            return [f.select(is_worse, t + 1, last), f.select(is_worse, before, at)]

        (at,) = f.loop(last, None, move, [last])
        self._put(at, key, place)

    def copy(self, x: Value, stride: Value, element: Type) -> None:
        """Write what was found: elements and places."""
        f = self.f
        values, places = f.argument("values"), f.argument("places")
        value_step, step = f.argument("value_step"), f.argument("step")

        def one(j: Value) -> Sequence[Value]:
            place = f.load(f.beyond(self.places, j * 8).text, COUNT)
            f.store(place, f.beyond(places, j * step).text)
            f.store(f.load(f.beyond(x, place * stride).text, element), f.beyond(values, j * value_step).text)
            return []

        f.loop(self.k, 1, one)
