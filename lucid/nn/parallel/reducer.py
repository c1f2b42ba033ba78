"""Averages of gradients over processes, computed during the backward pass.

Parameters are divided into buckets, in the reverse order of their registration, which is about the order in which their
gradients become complete. A bucket is sent as soon as it is complete and all before it were sent, so that all processes
send in the same order. A large parameter is a bucket of its own, and its gradient is reduced where it lies, without copies.

Which parameters were used is exchanged as well: behind the gradients of the last bucket, if it is one of small parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import lucid
from lucid import Tensor, distributed, no_grad
from lucid.autograd import Function
from lucid.autograd.arrivals import is_replaced, listen
from lucid.core import arrays
from lucid.core.levels import trace
from lucid.distributed import DistributedError, ProcessGroup, Work
from lucid.distributed.functional import pmean

__all__ = ["GradBucket", "Reducer"]

LARGE = 1 << 20  # bytes from which on a parameter is a bucket of its own
CommHook = Callable[[Any, "GradBucket"], Any]


class GradBucket:
    """Some parameters, and their gradients one after another in one tensor, as hooks of communication see them."""

    def __init__(self, number: int, parameters: Sequence[tuple[int, Tensor]], last: bool) -> None:
        self._number, self._last = number, last
        self.members = list(parameters)  # with their numbers among all
        self.flags = 0  # how many elements follow the gradients
        self.memory: Tensor | None = None  # the buffer, and these
        self._buffer: Tensor | None = None
        self.places: list[Tensor] = []  # the parts of the buffer
        self.missing = len(self.members)
        self.pending: Any = None  # a Work, or what a hook gave

    def index(self) -> int:
        """The number of the bucket, from 0 in the order in which they are sent."""
        return self._number

    def is_last(self) -> bool:
        """Whether it is the last one that is sent."""
        return self._last

    def buffer(self) -> Tensor:
        """All gradients, in one dimension."""
        if self._buffer is None:
            size = sum(p.numel() for _, p in self.members)
            self.memory = lucid.empty(size + self.flags, dtype=self.members[0][1].dtype)
            self.set_buffer(self.memory[:size])
        assert self._buffer is not None
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Take the gradients from another tensor of the same size."""
        self._buffer, self.places, start = tensor, [], 0
        for _, p in self.members:
            self.places.append(tensor[start : start + p.numel()].view(p.shape))
            start += p.numel()

    def gradients(self) -> list[Tensor]:
        """The gradients, each with the shape of its parameter."""
        self.buffer()
        return self.places

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return [p for _, p in self.members]


class Reducer:
    """Averages the gradients of parameters over a group at each backward pass for which it `is_listening`."""

    def __init__(
        self, named: Sequence[tuple[str, Tensor]], group: ProcessGroup, cap: int, may_miss: bool, is_static: bool
    ) -> None:
        self.names, self.group = [name for name, _ in named], group
        self.may_miss, self.is_static = may_miss, is_static
        self.hook: tuple[Any, CommHook] | None = None
        self.is_listening = False
        self.averages_programs = True  # as the last call of the module that was traced says
        self.members = self.divisor = group.size()  # who computes gradients, and by what their sum is divided
        self.leaves = {id(p): p for _, p in named}
        self.first_used: list[int] | None = None
        self.counted: WeakKeyDictionary[Any, set[int]] = (
            WeakKeyDictionary()
        )  # in programs, buckets with what was before
        self.buckets = _divided([p for _, p in named], cap)
        self.carrier = _carrier(self.buckets, len(named))  # the bucket that tells what was used
        self.slots = {id(p): (b, i) for b in self.buckets for i, (_, p) in enumerate(b.members)}
        self._clear()
        listen(self)

    def _clear(self) -> None:
        self.sent = 0
        self.used = [0] * len(self.names)
        self.arrived_keys: set[int] = set()
        self.direct: dict[int, Any] = {}  # bucket number -> the array of a gradient that is reduced where it lies
        for bucket in self.buckets:
            bucket.missing, bucket.pending = len(bucket.members), None

    @no_grad()
    def arrived(self, key: int, gradient: Any, own: bool) -> None:
        """Put a gradient into its bucket, and send those that are complete."""
        bucket, i = self.slots[key]
        number, p = bucket.members[i]
        before = p.grad
        if gradient is None and before is None:
            return
        self.arrived_keys.add(key)
        self.used[number] = 1
        if (
            len(bucket.members) == 1
            and not bucket.flags
            and before is None
            and self.hook is None
            and own
            and _is_final(gradient, p)
        ):
            self.direct[bucket.index()] = gradient
        else:
            place = bucket.gradients()[i]
            if gradient is None:
                place.copy_(before)
            else:
                place.copy_(gradient.detach() if isinstance(gradient, Tensor) else Tensor._wrap(gradient))
                if before is not None:
                    place.add_(before)
        bucket.missing -= 1
        self._send()

    def _send(self) -> None:
        while self.sent < len(self.buckets) and not self.buckets[self.sent].missing:
            bucket = self.buckets[self.sent]
            array = self.direct.get(bucket.index())
            if array is not None:
                bucket.pending = distributed.all_reduce(
                    Tensor._wrap(array.reshape(-1)), group=self.group, async_op=True
                )
            elif self.hook is not None:
                state, hook = self.hook
                bucket.pending = hook(state, bucket)
            else:
                buffer = bucket.buffer()
                if bucket.flags:
                    assert bucket.memory is not None
                    buffer = bucket.memory
                    buffer[-bucket.flags :] = lucid.tensor(self.used, dtype=buffer.dtype)
                bucket.pending = distributed.all_reduce(buffer, group=self.group, async_op=True)
            self.sent += 1

    @no_grad()
    def ended(self, late: Sequence[int]) -> None:
        """Send what is left, wait for all, and put the averages in place."""
        for bucket in self.buckets[self.sent :]:
            for i, (number, p) in enumerate(bucket.members):
                if id(p) in self.arrived_keys:
                    continue
                place, gradient = bucket.gradients()[i], p.grad
                if gradient is None:
                    place.zero_()
                else:
                    self.used[number] = 1
                    place.copy_(gradient)
            bucket.missing = 0
        self._complete()

    @no_grad()
    def shadow(self) -> None:
        """Take part in a pass of others without gradients of one's own."""
        for bucket in self.buckets:
            bucket.buffer().zero_()
            bucket.missing = 0
        self._complete()

    def _complete(self) -> None:
        self._send()
        used = self._used_by()
        for bucket in self.buckets:
            self._finish(bucket, used)
        self._clear()
        self._check(used)

    def _used_by(self) -> list[int]:
        """How many processes used each parameter."""
        if self.carrier is None or self.hook is not None:
            found = lucid.tensor(self.used, dtype=lucid.int32)
            distributed.all_reduce(found, group=self.group)
        else:
            self.carrier.pending.wait()
            assert self.carrier.memory is not None
            found = self.carrier.memory[-self.carrier.flags :]
        return [int(n) for n in found.tolist()]

    def _finish(self, bucket: GradBucket, used: list[int]) -> None:
        factor = 1.0 / self.divisor
        array = self.direct.get(bucket.index())
        found = bucket.pending.wait()
        if array is not None:
            ((_, p),) = bucket.members
            gradient = p.grad
            assert gradient is not None
            if gradient._array is not array:
                gradient.copy_(Tensor._wrap(array))
            gradient.mul_(factor)
            return
        if not isinstance(bucket.pending, Work):
            factor = 1.0
            if isinstance(found, Tensor) and found is not bucket.buffer():
                bucket.buffer().copy_(found)
        for place, (number, p) in zip(bucket.places, bucket.members, strict=True):
            if not used[number]:
                continue
            if p.grad is None:
                p.grad = lucid.empty_like(p)
            p.grad.detach().copy_(place) if factor == 1 else lucid.mul(place, factor, out=p.grad.detach())

    def _check(self, used: list[int]) -> None:
        """Raise, in all processes, if parameters were left out that must not be."""
        size = self.members
        if self.is_static:
            if size < self.group.size():
                return
            if self.first_used is None:
                self.first_used = used
            elif used != self.first_used:
                names = [n for n, a, b in zip(self.names, used, self.first_used, strict=True) if a != b]
                raise DistributedError(
                    f"DistributedDataParallel: with static_graph=True the same parameters must be used in each step, but "
                    f"not as many processes as in the first one used {_some(names)}"
                )
        elif not self.may_miss and min(used, default=size) < size:
            names = [f"{n} (used by {a} of {size})" for n, a in zip(self.names, used, strict=True) if a < size]
            raise DistributedError(
                f"DistributedDataParallel: this backward pass gave no gradient in some process to {_some(names)}. If "
                "that is meant, pass find_unused_parameters=True"
            )

    def averaging(self) -> dict[int, Tensor]:
        """For a program, tensors with the values of the parameters, whose gradients are averaged; by the ids of these."""
        if any(is_replaced(key) for key in self.leaves):
            raise NotImplementedError(
                "DistributedDataParallel: hooks that replace gradients of parameters before they are averaged are not part "
                "of a program; take the step without lucid.compile"
            )
        self.is_listening = False
        found = {}
        for bucket in self.buckets:
            parameters = bucket.parameters()
            for p, same in zip(parameters, _Averaged.apply(self, bucket, *parameters), strict=True):
                found[id(p)] = same
        return found

    def averages(self, bucket: GradBucket, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Those of the gradients of a bucket, in a program. What `.grad` has before is averaged with the first of them.

        Under `no_sync` they stay as they are, and the next ones that are averaged count what `.grad` has then.
        """
        counted = self.counted.setdefault(trace.get(), set())
        if not self.averages_programs:
            counted.discard(bucket.index())
            return gradients
        missing = [self.names[n] for (n, _), g in zip(bucket.members, gradients, strict=True) if g is None]
        if missing and not self.may_miss:
            raise DistributedError(
                f"DistributedDataParallel: this backward pass gives no gradient to {_some(missing)}. If that is meant, pass "
                "find_unused_parameters=True"
            )
        before = [None if bucket.index() in counted else p.grad for _, p in bucket.members]
        counted.add(bucket.index())
        parts = [lucid.zeros_like(p) if g is None else g for (_, p), g in zip(bucket.members, gradients, strict=True)]
        sums = [g if b is None else g + b for g, b in zip(parts, before, strict=True)]
        flat = lucid.cat([s.reshape(-1) for s in sums]) if len(sums) > 1 else sums[0].reshape(-1)
        flat = pmean(flat, self.group) if self.hook is None else self._hooked(bucket, flat)
        means = [
            m.reshape(p.shape) for m, (_, p) in zip(flat.split([s.numel() for s in sums]), bucket.members, strict=True)
        ]
        return [m if b is None else m - b for m, b in zip(means, before, strict=True)]

    def _hooked(self, bucket: GradBucket, flat: Tensor) -> Tensor:
        """What a hook of communication makes of gradients, in a program: its calls are instructions."""
        assert self.hook is not None
        state, hook = self.hook
        traced = GradBucket(bucket.index(), bucket.members, bucket.is_last())
        traced.set_buffer(flat.clone())
        pending = hook(state, traced)
        found = pending.wait()
        if isinstance(pending, Work):
            return traced.buffer() / self.divisor
        return (found if isinstance(found, Tensor) else traced.buffer()).to(flat.dtype)


class _Averaged(Function):
    """Parameters as they are; the derivative averages over a group."""

    @staticmethod
    def forward(ctx: Any, reducer: Reducer, bucket: GradBucket, *parameters: Tensor) -> Any:
        ctx.reducer, ctx.bucket = reducer, bucket
        ctx.set_materialize_grads(False)
        return tuple(p.view_as(p) for p in parameters)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, *ctx.reducer.averages(ctx.bucket, gradients)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _is_final(gradient: Any, p: Tensor) -> bool:
    """Whether an array that the pass owns will be `.grad` of a leaf as it is."""
    return (
        not isinstance(gradient, Tensor)
        and gradient.shape == p.shape
        and gradient.dtype is p.np_dtype
        and arrays.owns_memory(gradient)
        and arrays.is_writable(gradient)
        and arrays.is_contiguous(gradient)
    )


def _divided(parameters: Sequence[Tensor], cap: int) -> list[GradBucket]:
    """Buckets in the order in which they are likely to be complete: by their last member."""
    found: list[list[tuple[int, Tensor]]] = []
    open_: dict[Any, list[tuple[int, Tensor]]] = {}  # of small parameters, by type
    sizes: dict[Any, int] = {}
    for number in reversed(range(len(parameters))):
        p = parameters[number]
        size = p.numel() * p.element_size()
        if size >= min(LARGE, cap):
            found.append([(number, p)])
            continue
        kind = p.dtype
        if kind in open_ and sizes[kind] + size > cap:
            del open_[kind]
        if kind not in open_:
            open_[kind], sizes[kind] = [], 0
            found.append(open_[kind])
        open_[kind].append((number, p))
        sizes[kind] += size
    found.sort(key=lambda members: -members[-1][0])
    collecting = [members for members in found if any(members is each for each in open_.values())]
    if collecting:  # the last one of small parameters comes at the end: see `_carrier`
        last = collecting[-1]
        found = [*[members for members in found if members is not last], last]
    return [GradBucket(i, members, i == len(found) - 1) for i, members in enumerate(found)]


def _carrier(buckets: Sequence[GradBucket], count: int) -> GradBucket | None:
    """The last bucket with room behind its gradients for so many counts, if its type has them and it is not reduced elsewhere."""
    last = buckets[-1]
    first = last.members[0][1]
    is_alone = len(last.members) == 1 and first.numel() * first.element_size() >= LARGE
    if is_alone or first.dtype not in (lucid.float32, lucid.float64):
        return None
    last.flags = count
    return last
