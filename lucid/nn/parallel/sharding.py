"""Fully sharded modules: each process keeps a part of each parameter, and gathers whole ones just while they are used.

Parameters are divided along their first dimension into equal parts, the last of which may be shorter or empty. Those of one
module form a unit that is gathered at once: before the module runs, and again before its part of the backward pass. After
that the gradients are averaged, and each process keeps the gradient of its part. While a unit computes, the one that came
after it the last time is gathered already.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary, ref

import lucid
from lucid import Tensor, distributed, is_grad_enabled, no_grad
from lucid.autograd import Function
from lucid.autograd.graph import saved_tensors_hooks
from lucid.core import modes
from lucid.core.levels import trace, tracing
from lucid.core.tree import flatten, tree_map
from lucid.distributed import ProcessGroup
from lucid.distributed.groups import chosen
from lucid.distributed.parts import Place, mark_as_part
from lucid.nn.module import Module
from lucid.nn.parallel.agreement import broadcast_all, listed, raise_unless_equal

__all__ = ["MixedPrecisionPolicy", "fully_shard", "load_unsharded_state_dict", "unsharded_state_dict"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The types in which a sharded module computes. Parts of parameters and their gradients keep the type of the module.

    `param_dtype` is the type of gathered parameters and of floating-point inputs (unless `cast_forward_inputs` is False),
    `reduce_dtype` that in which gradients are averaged, `output_dtype` that of results.

    >>> import lucid
    >>> from lucid.nn.parallel import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=lucid.bfloat16).reduce_dtype is None
    True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class _Part:
    """One parameter of a unit: where it is registered, what it is as a whole, and where its parts lie in the unit."""

    places: tuple[tuple[Module, str], ...]
    shard: Tensor
    shape: tuple[int, ...]
    rows: int  # of each part, but for the last ones
    start: int  # of this process's part in its memory for the unit
    count: int  # elements of each part, with what fills up the last ones


@dataclass(frozen=True)
class _Token:
    """A saved value that is a whole parameter, or a view of one: it is gathered again when it is used."""

    number: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class _Outer:
    """A saved value in the form that the hooks around gave it."""

    handle: Any
    unpack: Callable[[Any], Tensor]


@dataclass(frozen=True)
class _Coming:
    """What is being gathered: the parts of everyone, and the versions of one's own that they were made of."""

    everyone: Tensor
    work: Any
    versions: list[int]


class _Order:
    """The order in which the units of a group are gathered, in each direction: the same in all processes."""

    def __init__(self) -> None:
        self.last: ref[Unit] | None = None
        self.backwards = False

    def came(self, unit: "Unit", backwards: bool) -> "Unit | None":
        """Note that a unit is gathered; returns the one that came after it before."""
        before = self.last() if self.last is not None and self.backwards == backwards else None
        if before is not None and before is not unit:
            before.following[backwards] = ref(unit)
        self.last, self.backwards = ref(unit), backwards
        known = unit.following[backwards]
        return None if known is None else known()


_orders: WeakKeyDictionary[ProcessGroup, _Order] = WeakKeyDictionary()


class _Gathered(Function):
    """Whole parameters of parts; the derivative averages and divides."""

    @staticmethod
    def forward(ctx: Any, unit: "Unit", *shards: Tensor) -> Any:
        ctx.unit = unit
        return tuple(unit.gathered())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *ctx.unit.reduced(gradients)


class Unit:
    """The parameters of a module that are gathered at once."""

    def __init__(
        self, module: Module, group: ProcessGroup, policy: MixedPrecisionPolicy, reshard_after_forward: bool
    ) -> None:
        self.module, self.group, self.policy, self.reshards = module, group, policy, reshard_after_forward
        self.parts = self._divided()
        self.length = sum(part.count for part in self.parts)
        self.whole: list[Tensor] | None = None  # during the backward pass, with the versions of the shards
        self.versions: list[int] = []
        self.coming: _Coming | None = None
        self.following: list[ref[Unit] | None] = [None, None]  # the unit that is gathered next, forwards and backwards
        self.forward = module.forward
        module.forward = self.call  # type: ignore[method-assign]

    # Dividing.

    def _divided(self) -> list[_Part]:
        places: dict[int, tuple[Tensor, list[tuple[Module, str]]]] = {}
        for module in _own_modules(self.module):
            for name, p in module._parameters.items():
                if p is not None:
                    places.setdefault(id(p), (p, []))[1].append((module, name))
        parts, start = [], 0
        for p, where in places.values():
            shape, rank = tuple(p.shape), self.group.rank()
            rows = -(-(shape[0] if shape else 1) // self.group.size())
            count = rows * prod(shape[1:])
            with no_grad():
                table = p.detach().reshape(-1, *shape[1:])
                gradient, p.grad = p.grad, None
                p.data = table[rank * rows : (rank + 1) * rows].clone()
                if gradient is not None:
                    p.grad = gradient.reshape(table.shape)[rank * rows : (rank + 1) * rows].clone()
            first = min(rank * rows, len(table))
            mark_as_part(p, self.group, Place((first, *[0] * (table.ndim - 1)), tuple(table.shape)))
            parts.append(_Part(tuple(where), p, shape, rows, start, count))
            start += count
        return parts

    # Gathering.

    @no_grad()
    def gathered(self, backwards: bool = False) -> list[Tensor]:
        """The whole parameters: those that the backward pass has gathered, if they are still right."""
        if self.whole is not None and self.versions == self._now() and not _in_program():
            return [w.detach() for w in self.whole]
        if _in_program():
            everyone = self.started(False).everyone
        else:
            coming = self._ahead() or self.started(True)
            following = _orders.setdefault(self.group, _Order()).came(self, backwards)
            if following is not None and following._ahead() is None:
                following.coming = following.started(True)
            self.coming, everyone = None, coming.everyone
            if coming.work is not None:
                coming.work.wait()
        return [self._joined(everyone, part) for part in self.parts]

    def _ahead(self) -> _Coming | None:
        """What was started before, if it is still right."""
        return self.coming if self.coming is not None and self.coming.versions == self._now() else None

    @no_grad()
    def started(self, async_op: bool) -> _Coming:
        """Begin to gather."""
        kind = self.policy.param_dtype
        types = {part.shard.dtype for part in self.parts} if kind is None else {kind}
        if len(types) != 1:
            raise TypeError(f"fully_shard: parameters of one unit must have one type, not {', '.join(map(str, types))}")
        size, rank = self.group.size(), self.group.rank()
        everyone = lucid.zeros(size, self.length, dtype=types.pop())
        for part in self.parts:
            mine = part.shard.detach().reshape(-1)
            everyone[rank, part.start : part.start + mine.numel()].copy_(mine)
        work = distributed.all_gather_into_tensor(everyone, everyone[rank], self.group, async_op) if size > 1 else None
        return _Coming(everyone, work, self._now())

    def whole_parameters(self) -> list[Tensor]:
        """The whole parameters in the type that they have."""
        policy, self.policy = self.policy, MixedPrecisionPolicy()
        try:
            everyone = self.started(False).everyone
        finally:
            self.policy = policy
        return [self._joined(everyone, part) for part in self.parts]

    def _joined(self, everyone: Tensor, part: _Part) -> Tensor:
        rows = everyone[:, part.start : part.start + part.count].reshape(-1)
        return rows[: prod(part.shape)].reshape(part.shape)

    def _now(self) -> list[int]:
        return [part.shard._version for part in self.parts]

    # Running.

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward, with whole parameters in place of the parts."""
        kind = self.policy.param_dtype
        if kind is not None and self.policy.cast_forward_inputs:
            args, kwargs = _cast((args, kwargs), kind)
        shards = [part.shard for part in self.parts]
        records = is_grad_enabled() and any(s.requires_grad for s in shards)
        reshards = records and self.reshards and not _in_program()
        found = _Gathered.apply(self, *shards) if records else self.gathered()
        whole = [f if s.requires_grad else f.detach() for f, s in zip(found, shards, strict=True)]
        with self._in_place(whole):
            if reshards:
                pack, unpack = self._hooks(whole)
                with saved_tensors_hooks(pack, unpack):
                    out = self.forward(*args, **kwargs)
            else:
                out = self.forward(*args, **kwargs)
        if self.policy.output_dtype is not None:
            out = _cast(out, self.policy.output_dtype)
        return self._watched(out) if reshards else out

    @contextmanager
    def _in_place(self, whole: Sequence[Tensor]) -> Iterator[None]:
        before = [[vars(module)[name] for module, name in part.places] for part in self.parts]
        self._put(whole)
        try:
            yield
        finally:
            for part, tensors in zip(self.parts, before, strict=True):
                for (module, name), tensor in zip(part.places, tensors, strict=True):
                    vars(module)[name] = tensor

    def _put(self, tensors: Sequence[Tensor]) -> None:
        for part, tensor in zip(self.parts, tensors, strict=True):
            for module, name in part.places:
                vars(module)[name] = tensor

    def _hooks(self, whole: Sequence[Tensor]) -> tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]:
        """What is saved of whole parameters is a token; all else goes to the hooks around, if there are any."""
        ranges = [(w.data_ptr(), w.data_ptr() + w.numel() * w.element_size(), w.element_size()) for w in whole]
        outer = modes.saved_hooks.get()[-1] if modes.saved_hooks.get() else None

        def pack(tensor: Tensor) -> Any:
            start = tensor.data_ptr()
            for number, (first, end, width) in enumerate(ranges):
                if first <= start < end and tensor.dtype == whole_type:
                    return _Token(number, tuple(tensor.shape), tuple(tensor.stride()), (start - first) // width)
            return tensor if outer is None else _Outer(outer[0](tensor), outer[1])

        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, _Outer):
                return packed.unpack(packed.handle)
            if not isinstance(packed, _Token):
                kept: Tensor = packed
                return kept
            full = self.gather_again()[packed.number]
            return full.detach().as_strided(packed.size, packed.stride, full.storage_offset() + packed.offset)

        whole_type = whole[0].dtype
        return pack, unpack

    def gather_again(self) -> list[Tensor]:
        """The whole parameters for the backward pass, which stay until the gradients are averaged."""
        if self.whole is None or self.versions != self._now():
            found = self.gathered(True)
            for part, full in zip(self.parts, found, strict=True):
                full.requires_grad_(part.shard.requires_grad)
            self.whole, self.versions = found, self._now()
            self._put(found)  # what is recomputed during the pass sees them, too
        return self.whole

    def _watched(self, out: Any) -> Any:
        for leaf in flatten(out)[0]:
            if isinstance(leaf, Tensor) and leaf.requires_grad and not leaf.is_leaf:
                leaf.register_hook(self._before_backward)
        return out

    def _before_backward(self, gradient: Tensor) -> None:
        self.gather_again()

    @no_grad()
    def reduced(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The averages of gradients of whole parameters, divided; what was gathered is given up."""
        self.whole = None
        self._put([part.shard for part in self.parts])
        size = self.group.size()
        kinds = {g.dtype for g in gradients if g is not None}
        kind = self.policy.reduce_dtype or kinds.pop()
        everyone = lucid.zeros(size, self.length, dtype=kind)
        for part, gradient in zip(self.parts, gradients, strict=True):
            if gradient is None:
                continue
            place = everyone[:, part.start : part.start + part.count]
            flat = gradient.detach().reshape(-1)
            if flat.numel() < size * part.count:
                flat = lucid.cat([flat, lucid.zeros(size * part.count - flat.numel(), dtype=flat.dtype)])
            place.copy_(flat.reshape(size, part.count))
        mine = lucid.empty(self.length, dtype=kind)
        if size > 1:
            distributed.reduce_scatter_tensor(mine, everyone.reshape(-1), "mean", self.group)
        else:
            mine = everyone[0]
        return [
            mine[part.start : part.start + part.shard.numel()].reshape(part.shard.shape).to(part.shard.dtype)
            if part.shard.requires_grad
            else None
            for part in self.parts
        ]


def _in_program() -> bool:
    """Whether a program is traced here: it gathers once, and its memory is planned for how long that is needed."""
    return bool(tracing()) and trace.get() is not None


def _cast(values: Any, kind: Any) -> Any:
    return tree_map(lambda v: v.to(kind) if isinstance(v, Tensor) and v.is_floating_point() else v, values)


_UNIT = "_sharded_unit"  # the attribute of a module by which its unit is found


def unit_of(module: Module) -> Unit | None:
    """The unit that a module was made, if it was."""
    found: Unit | None = vars(module).get(_UNIT)
    return found


def _own_modules(module: Module) -> Iterator[Module]:
    """A module and those below it, without what belongs to units below."""
    yield module
    for child in module.children():
        if unit_of(child) is None:
            yield from _own_modules(child)


def fully_shard(
    module: Module,
    *,
    mesh: Any = None,
    reshard_after_forward: bool = True,
    mp_policy: MixedPrecisionPolicy | None = None,
    process_group: ProcessGroup | None = None,
) -> Module:
    """Divide the parameters of a module among the processes of a group, in place; returns the module.

    Call it on the blocks of a model first, and then on the model: each call makes a unit of the parameters that no unit below
    has. All processes begin with the parameters of the first one. Make the optimizer afterwards: it sees parts, and its
    state is that of parts. With `reshard_after_forward=False` gathered parameters stay until the backward pass.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import fully_shard
    >>> dist.init_process_group("single")
    >>> model = fully_shard(lucid.nn.Linear(2, 1))
    >>> model(lucid.ones(4, 2)).sum().backward()
    >>> model.bias.grad
    Tensor([4.])
    >>> dist.destroy_process_group()
    """
    if unit_of(module) is not None:
        raise ValueError(f"fully_shard: this {type(module).__name__} is sharded already")
    group = chosen(mesh.get_group() if mesh is not None else process_group)
    own = [(name, p) for m in _own_modules(module) for name, p in m._parameters.items() if p is not None]
    if not own:
        raise ValueError(f"fully_shard: this {type(module).__name__} has no parameters that no unit below it has")
    if group.size() > 1:
        raise_unless_equal("fully_shard: parameters", listed(own), group)
        with no_grad():
            broadcast_all([p for _, p in own], group)
    vars(module)[_UNIT] = Unit(module, group, mp_policy or MixedPrecisionPolicy(), reshard_after_forward)
    return module


def _units(module: Module) -> list[Unit]:
    return [unit for m in module.modules() if (unit := unit_of(m)) is not None]


@no_grad()
def unsharded_state_dict(module: Module) -> dict[str, Tensor]:
    """The state of a module with whole parameters, in all processes. All of them call it.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import fully_shard, unsharded_state_dict
    >>> dist.init_process_group("single")
    >>> unsharded_state_dict(fully_shard(lucid.nn.Linear(2, 1)))["weight"].shape
    (1, 2)
    >>> dist.destroy_process_group()
    """
    state = dict(module.state_dict())
    for unit in _units(module):
        for part, full in zip(unit.parts, unit.whole_parameters(), strict=True):
            for name in _names(module, part):
                state[name] = full
    return state


def _names(module: Module, part: _Part) -> list[str]:
    prefixes = {id(m): prefix for prefix, m in module.named_modules(remove_duplicate=False)}
    return [
        ".".join(p for p in (prefixes[id(owner)], name) if p) for owner, name in part.places if id(owner) in prefixes
    ]


@no_grad()
def load_unsharded_state_dict(module: Module, state: dict[str, Tensor]) -> None:
    """Load a state with whole parameters: each process keeps its parts."""
    state = dict(state)
    for unit in _units(module):
        rank = unit.group.rank()
        for part in unit.parts:
            for name in _names(module, part):
                whole = state[name]
                if tuple(whole.shape) != part.shape:
                    raise ValueError(
                        f"load_unsharded_state_dict: {name} has shape {part.shape}, not {tuple(whole.shape)}"
                    )
                table = whole.detach().reshape(-1, *part.shape[1:])
                state[name] = table[rank * part.rows : (rank + 1) * part.rows]
    module.load_state_dict(state)
