"""Where elementwise optimizers keep their state, and how they walk over it.

The state of many small parameters lies in one piece of memory, a *bucket*: one array for each name ("exp_avg"...), of
which the tensors in `optimizer.state` are views. A step then copies parameters and gradients into scratch memory in the
same order, and updates all of them with a handful of array operations. A large parameter has a bucket of its own and is
updated where it stands, in *windows* that fit the processor's cache.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.storage import new_storage
from lucid.core.tensor import Tensor, class_of, wrapped_as

# Elements in a window: with Adam, six arrays of this length and 4 bytes an element are at work at once.
WINDOW = 1 << 15
# Parameters up to this size are copied together; for larger ones the calls that this saves cost less than the copies.
SMALL = 1 << 14
_ALIGNMENT = 64  # bytes; arithmetic on arrays that start inside a cache line takes up to three times as long


_numbers = count()
subtract = np.subtract


def aligned(size: int, kind: np.dtype[Any]) -> Any:
    """An array of zeros that starts at a cache line."""
    raw = np.zeros(size * kind.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size * kind.itemsize].view(kind)


def working_type(array: Any) -> np.dtype[Any]:
    """The type to compute in: 16-bit types are widened, and complex numbers are pairs of real ones."""
    real = dtypes.real_of(array.dtype)
    return real if real.itemsize >= 4 else dtypes.float32.numpy


def _length(array: Any) -> int:
    """How many real numbers an array holds."""
    return int(array.size) * (2 if array.dtype.kind == "c" else 1)


def like(flat: Any, array: Any) -> Any:
    """A stretch of real numbers in the shape of an array, and as complex numbers if that holds such."""
    return (flat.view(dtypes.complex_of(flat.dtype)) if array.dtype.kind == "c" else flat).reshape(array.shape)


def flat_reals(array: Any) -> Any:
    """All elements in one dimension, without a copy if they lie in order."""
    flat = array.reshape(-1)
    return flat.view(dtypes.real_of(array.dtype)) if array.dtype.kind == "c" else flat


def kept(parameter: Tensor, array: Any) -> Any:
    """An array of the state as a tensor of the class of what is computed of its parameter."""
    return wrapped_as(class_of((parameter,)), array)


class Bucket:
    """The state of some parameters of one type, one array for each name, and a row of numbers for each counter."""

    def __init__(self, params: Sequence[Tensor], slots: Sequence[str], counters: Sequence[str]) -> None:
        arrays = [p._array for p in params]
        self.params = list(params)
        self.number = next(_numbers)
        self.bounds = np.cumsum([0, *map(_length, arrays)]).tolist()
        self.kind = dtypes.real_of(arrays[0].dtype)
        self.shapes = [(array.shape, array.dtype.kind) for array in arrays]
        self.storage = new_storage()  # counts the writes of all state tensors: a step writes to all
        self.loose: list[Tensor] = []  # those that count their own
        self.slots = {name: aligned(self.bounds[-1], self.kind) for name in slots}
        self.counts = np.zeros((len(counters), len(params)), np.float32)
        self.views: list[dict[str, Any]] = []
        for i, array in enumerate(arrays):
            start, stop = self.bounds[i], self.bounds[i + 1]
            views = {name: self.counts[row, i : i + 1].reshape(()) for row, name in enumerate(counters)}
            views |= {name: like(flat[start:stop], array) for name, flat in self.slots.items()}
            self.views.append(views)

    def holds(self, i: int, entry: dict[str, Any], names: Sequence[str]) -> bool:
        """Whether the state of parameter `i` is what this bucket has for it, and nobody has replaced either."""
        array, views = self.params[i]._array, self.views[i]
        return (
            dtypes.real_of(array.dtype) == self.kind
            and (array.shape, array.dtype.kind) == self.shapes[i]
            and all(name in views and getattr(entry.get(name), "_array", None) is views[name] for name in names)
        )

    def let_go(self, tensors: Iterable[Any]) -> None:
        """Let state tensors count their writes each for itself, since somebody is about to write to them singly."""
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor._meta is self.storage:
                tensor._meta = new_storage()
                tensor._meta.version = self.storage.version
                self.loose.append(tensor)


class Scratch:
    """Memory for one type of numbers that every window uses in turn."""

    def __init__(self, kind: np.dtype[Any]) -> None:
        self.kind = kind
        self._buffers: list[Any] = []
        self._scalars = aligned(0, kind)
        self._scalar_views: list[Any] = []

    def buffers(self, size: int) -> list[Any]:
        """Four arrays of this length: for parameters, gradients, the update, and what else it takes."""
        if not self._buffers or self._buffers[0].size < size:
            self._buffers = [aligned(max(size, WINDOW), self.kind) for _ in range(4)]
        return [buffer[:size] for buffer in self._buffers]

    def scalars(self, numbers: Sequence[Any]) -> list[Any]:
        """Numbers as 0-d arrays, by which arrays are multiplied in half the time that Python's numbers take."""
        if len(numbers) != len(self._scalar_views):
            self._scalars = aligned(len(numbers), self.kind)
            self._scalar_views = [self._scalars[i : i + 1].reshape(()) for i in range(len(numbers))]
        self._scalars[:] = [float(n) for n in numbers]
        return self._scalar_views


class Window:
    """A stretch of state that is worked on at once, and the parameters, or the part of one, that it belongs to.

    `p`, `g` and `slots` are flat arrays to compute with: where possible the memory of the parameter, its gradient and
    its state, otherwise scratch memory that `load` fills. `t`, `u` and `w` are always scratch memory; `apply` takes
    what is in `u` off the parameters.
    """

    def __init__(self, params: Sequence[Tensor], part: slice | None, kept: Sequence[Any], scratch: Scratch) -> None:
        self.part = part
        self.pieces = [p._array if part is None else flat_reals(p._array)[part] for p in params]
        bounds = np.cumsum([0, *map(_length, self.pieces)]).tolist()
        self.p, self.t, self.u, self.w = scratch.buffers(bounds[-1])
        self.g = self.t
        self.kept = self.slots = kept
        self.widened = dtypes.real_of(self.pieces[0].dtype) != scratch.kind
        self.direct = part is not None and not self.widened
        if self.direct:
            self.p = self.pieces[0]
        places = list(zip(bounds, bounds[1:], self.pieces, strict=False))
        self.copies = [like(self.p[a:b], piece) for a, b, piece in places]
        self.gradients = [like(self.t[a:b], piece) for a, b, piece in places]
        self.updates = [like(self.u[a:b], piece) for a, b, piece in places]

    def load(self, gradients: Sequence[Any], reads_p: bool) -> None:
        """Bring gradients and state, and parameters if they are read, into the arrays to compute with."""
        if self.part is not None:
            gradients = [gradients[0][self.part]]
        if self.direct:
            self.g = gradients[0]
            return
        for home, gradient in zip(self.gradients, gradients):
            home[...] = gradient
        if reads_p:
            for home, piece in zip(self.copies, self.pieces):
                home[...] = piece
        if self.widened:
            self.slots = [array.astype(self.u.dtype) for array in self.kept]

    def apply(self) -> None:
        """Subtract the update from the parameters, store the state, and let go of the gradient."""
        for piece, update in zip(self.pieces, self.updates):
            subtract(piece, update, piece)
        self.let_go()
        if self.widened:
            for array, new in zip(self.kept, self.slots):
                array[...] = new
            self.slots = self.kept

    def let_go(self) -> None:
        """Forget the gradient."""
        self.g = self.t


class Run:
    """Neighbours in a bucket that have a gradient and are at the same count: one set of coefficients serves them."""

    def __init__(self, bucket: Bucket, first: int, last: int, fresh: bool, scratch: Scratch) -> None:
        self.params = bucket.params[first:last]
        self.bucket = bucket
        self.rows = [row[first:last] for row in bucket.counts]
        self.fresh = fresh  # its state was made for the step that is about to be taken
        self.scratch = scratch
        self.now: list[float] = []
        self.windows = list(_windows(bucket, first, last, scratch))

    def read(self) -> bool:
        """Note the counters as they are; False if they have come to differ, and the run must be split."""
        rows = [row.tolist() for row in self.rows]
        self.now = [row[0] for row in rows]
        return all(row.count(row[0]) == len(row) for row in rows)

    def gradients(self) -> list[Any] | None:
        """The gradients as the windows want them: of a parameter in parts, the elements in order. None if one is gone."""
        arrays = [g._array for p in self.params if (g := p._grad) is not None]
        if len(arrays) < len(self.params):
            return None
        return arrays if self.windows[0].part is None else [flat_reals(np.ascontiguousarray(arrays[0]))]

    def write(self, counts: Sequence[float]) -> None:
        """Set the counters."""
        for row, value in zip(self.rows, counts):
            row.fill(value)


def _windows(bucket: Bucket, first: int, last: int, scratch: Scratch) -> Iterator[Window]:
    params = bucket.params[first:last]
    start, stop = bucket.bounds[first], bucket.bounds[last]
    if len(params) > 1 or start == stop or not params[0]._array.flags.c_contiguous:
        yield Window(params, None, [flat[start:stop] for flat in bucket.slots.values()], scratch)
        return
    for a in range(start, stop, WINDOW):
        b = min(a + WINDOW, stop)
        yield Window(params, slice(a - start, b - start), [flat[a:b] for flat in bucket.slots.values()], scratch)


def packed(params: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Parameters in batches that share a bucket: small ones of one type up to a window, large ones alone."""
    waiting: dict[Any, list[Tensor]] = {}
    filled: dict[Any, int] = {}
    for p in params:
        length = _length(p._array)
        if length > SMALL:
            yield [p]
            continue
        kind = dtypes.real_of(p._array.dtype)
        batch = waiting.setdefault(kind, [])
        if filled.get(kind, 0) + length > WINDOW:
            yield list(batch)
            batch.clear()
            filled[kind] = 0
        batch.append(p)
        filled[kind] = filled.get(kind, 0) + length
    yield from (batch for batch in waiting.values() if batch)
