"""Collectives and messages between processes, which write to memory that is there. All members of a group call them.

With `async_op=True` they return a `Work` at once; tensors must be left alone until its `wait` returns. Ranks (`src`, `dst`)
are numbers among all processes, `group_src` and `group_dst` numbers in the group.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lucid.autograd import no_grad
from lucid.core import dtypes, modes
from lucid.core.arrays import zeros
from lucid.core.levels import tracing
from lucid.core.tensor import Tensor
from lucid.distributed import functional
from lucid.distributed.calls import MOST_TAG, rank_of, read_op, started
from lucid.distributed.engines.engine import DONE, DistributedError, Receiving, ReduceOp, polled
from lucid.distributed.groups import ProcessGroup, chosen, seconds_of
from lucid.distributed.memory import as_tensors, described, raise_unless_tensor, read, read_all, written, written_all
from lucid.distributed.work import Work

__all__ = [
    "P2POp", "ReduceOp", "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "gather", "irecv", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip

_HERE, _ALL_HERE = MOST_TAG + 8, MOST_TAG + 9


def summed(op: ReduceOp) -> ReduceOp:
    """What engines are asked for: a mean is a sum that is divided."""
    return ReduceOp.SUM if op is ReduceOp.AVG else op


def _averaged(tensor: Tensor, op: ReduceOp, size: int, finish: Callable[[], None]) -> Callable[[], None]:
    """`finish`, and for a mean the division."""
    if op is not ReduceOp.AVG or size == 1:
        return finish

    def divide() -> None:
        finish()
        with no_grad():
            tensor.detach().div_(size)

    return divide


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all members are here."""
    own = chosen(group)
    work: Work | None = started("barrier()", own, own.engine.barrier, async_op=async_op)
    return work


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all members are here; the error of the first of them, past the time limit, names those that are not."""
    own = chosen(group)
    limit, empty = seconds_of(timeout, own.timeout), Tensor._wrap(zeros((0,), dtypes.uint8.numpy))
    others = range(1, own.size())
    if own.rank():
        start_send(empty, own, 0, _HERE).wait(limit)
        start_recv(empty, own, 0, _ALL_HERE).wait(2 * limit)
        return
    end = time.monotonic() + limit
    waits = {own.ranks[i]: start_recv(empty.clone(), own, i, _HERE) for i in others}
    polled(lambda: all(w.is_completed() for w in waits.values()), max(end - time.monotonic(), 0.0))
    missing = [rank for rank, work in waits.items() if not work.is_completed()]
    if missing:
        raise DistributedError(
            f"monitored_barrier of {own!r}: after {limit:g} s, these ranks were not there: {missing}"
        )
    for work in [start_send(empty, own, i, _ALL_HERE) for i in others]:
        work.wait(limit)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Give all members the elements that one of them has.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> x = lucid.ones(2)
    >>> dist.broadcast(x, src=0)
    >>> dist.destroy_process_group()
    """
    own = chosen(group)
    root = rank_of("broadcast", "src", own, src, group_src, None)
    if _is_followed(tensor):
        return _replaced("broadcast", tensor, lambda x: functional.broadcast(x, own.ranks[root], own), async_op)
    buffer, finish = written("broadcast", tensor)
    what = f"broadcast({described(tensor)}, src={own.ranks[root]})"
    return started(what, own, lambda: own.engine.broadcast(buffer, root), finish, async_op)


def _replaced(name: str, target: Tensor, compute: Callable[[Tensor], Tensor], async_op: bool) -> Work | None:
    """Write what a function with derivatives gives: inside a transform or program, or where history is recorded."""
    own = target.detach() if target.requires_grad and target.is_leaf else target
    own.copy_(compute(own))
    return Work(name, chosen(), DONE, _nothing) if async_op else None


def _is_followed(target: Any, *inputs: Any) -> bool:
    """Whether a write to the memory of `target` would miss what is recorded or traced. A leaf is written without record."""
    found = [t for t in (target, *inputs) if isinstance(t, Tensor)]
    if tracing() or any(t._level for t in found):
        return True
    recorded = any(t.requires_grad and not (t is target and t.is_leaf) for t in found)
    return recorded and bool(modes.recording.get())


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Put the elements of all members together, in place, for all of them.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> x = lucid.ones(2)
    >>> dist.all_reduce(x, "mean")
    >>> x
    Tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    own = chosen(group)
    if _is_followed(tensor):
        return _replaced("all_reduce", tensor, lambda x: functional.all_reduce(x, op, own), async_op)
    buffer, finish = written("all_reduce", tensor)
    op = read_op("all_reduce", op, tensor.dtype)
    finish = _averaged(tensor, op, own.size(), finish)
    what = f"all_reduce({described(tensor)}, {op.value})"
    return started(what, own, lambda: own.engine.all_reduce(buffer, summed(op)), finish, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the elements of all members together, in place, for one of them."""
    own = chosen(group)
    root = rank_of("reduce", "dst", own, dst, group_dst, None)
    op = read_op("reduce", op, tensor.dtype)
    if own.rank() == root:
        buffer, finish = written("reduce", tensor)
        finish = _averaged(tensor, op, own.size(), finish)
    else:
        buffer, finish = read("reduce", tensor), _nothing
    what = f"reduce({described(tensor)}, {op.value}, dst={own.ranks[root]})"
    return started(what, own, lambda: own.engine.reduce(buffer, summed(op), root), finish, async_op)


def _nothing() -> None:
    pass


def _same(name: str, what: str, a: Any, b: Any) -> None:
    for each in (a, b):
        raise_unless_tensor(name, each)
    if a.np_dtype != b.np_dtype:
        raise TypeError(f"{name}: {what} must have one type, not {described(a)} and {described(b)}")


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Give all members what each of them has, in a list. Shapes may differ between members.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> parts = [lucid.zeros(2)]
    >>> dist.all_gather(parts, lucid.ones(2))
    >>> parts
    [Tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    own = chosen(group)
    targets, rank = as_tensors("all_gather", tensor_list, own.size()), own.rank()
    _same("all_gather", "the list and the tensor", targets[rank], tensor)
    if targets[rank].numel() != tensor.numel():
        raise ValueError(
            f"all_gather: the list has {described(targets[rank])} for rank {own.ranks[rank]}, which gives {described(tensor)}"
        )
    if _is_followed(targets[rank], tensor) and all(t.shape == tensor.shape for t in targets):
        for target, part in zip(targets, functional.all_gather(tensor.unsqueeze(0), 0, own).unbind(0), strict=True):
            target.copy_(part)
        return Work("all_gather", own, DONE, _nothing) if async_op else None
    source = read("all_gather", tensor)
    target, counts, finish = written_all("all_gather", targets)
    what = f"all_gather({described(targets)})"
    return started(what, own, lambda: own.engine.all_gather(source, target, _unequal(counts)), finish, async_op)


def _unequal(counts: list[int]) -> list[int] | None:
    return None if len(set(counts)) == 1 else counts


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give all members what each of them has, one after another in one tensor.

    The input may be this member's part of the output, and then nothing is copied.
    """
    own = chosen(group)
    name = "all_gather_into_tensor"
    _same(name, "output and input", output_tensor, input_tensor)
    _raise_unless_multiple(name, output_tensor, input_tensor, own.size(), "output", "input")
    if _is_followed(output_tensor, input_tensor):
        whole = functional.all_gather(input_tensor.reshape(-1), 0, own).reshape(output_tensor.shape)
        return _replaced(name, output_tensor, lambda _: whole, async_op)
    source = read(name, input_tensor)
    target, finish = written(name, output_tensor)
    what = f"{name}({described(output_tensor)}, {described(input_tensor)})"
    return started(what, own, lambda: own.engine.all_gather(source, target), finish, async_op)


def _raise_unless_multiple(name: str, whole: Tensor, part: Tensor, size: int, *words: str) -> None:
    if whole.numel() != part.numel() * size:
        raise ValueError(
            f"{name}: for {size} members the {words[0]} must have {size} times as many elements as the {words[1]}, "
            f"but they are {described(whole)} and {described(part)}"
        )


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give one member, by default the first, what each of them has, in a list, which the others leave out."""
    own = chosen(group)
    root = rank_of("gather", "dst", own, dst, group_dst, 0)
    source = read("gather", tensor)
    target, counts, finish = None, None, _nothing
    if own.rank() == root:
        targets = as_tensors("gather", gather_list, own.size())
        _same("gather", "the list and the tensor", targets[root], tensor)
        _raise_unless_alike("gather", targets, tensor)
        target, _, finish = written_all("gather", targets)
    elif gather_list:
        raise ValueError(f"gather: only rank {own.ranks[root]}, which gathers, has a gather_list")
    what = f"gather({described(tensor)}, dst={own.ranks[root]})"
    return started(what, own, lambda: own.engine.gather(source, target, root, counts), finish, async_op)


def _raise_unless_alike(name: str, tensors: Sequence[Tensor], tensor: Tensor) -> None:
    for each in tensors:
        if each.numel() != tensor.numel():
            raise ValueError(f"{name}: the list has {described(each)}, but the tensor is {described(tensor)}")


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each member one tensor of the list that one of them, by default the first, has."""
    own = chosen(group)
    root = rank_of("scatter", "src", own, src, group_src, 0)
    target, finish = written("scatter", tensor, reads=False)
    source = None
    if own.rank() == root:
        sources = as_tensors("scatter", scatter_list, own.size())
        _same("scatter", "the list and the tensor", sources[root], tensor)
        _raise_unless_alike("scatter", sources, tensor)
        source, _ = read_all("scatter", sources)
    elif scatter_list:
        raise ValueError(f"scatter: only rank {own.ranks[root]}, which scatters, has a scatter_list")
    what = f"scatter({described(tensor)}, src={own.ranks[root]})"
    return started(what, own, lambda: own.engine.scatter(source, target, root), finish, async_op)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put lists of all members together, and give each member its tensor. Shapes may differ along the list."""
    own = chosen(group)
    name, rank = "reduce_scatter", own.rank()
    sources = as_tensors(name, input_list, own.size())
    target, finish = written(name, output, reads=False)
    _same(name, "the list and the output", sources[rank], output)
    if sources[rank].numel() != output.numel():
        raise ValueError(
            f"{name}: the list has {described(sources[rank])} for rank {own.ranks[rank]}, whose output is {described(output)}"
        )
    op = read_op(name, op, output.dtype)
    source, counts = read_all(name, sources)
    finish = _averaged(output, op, own.size(), finish)
    what = f"{name}({described(sources)}, {op.value})"
    return started(
        what, own, lambda: own.engine.reduce_scatter(source, target, summed(op), _unequal(counts)), finish, async_op
    )


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put tensors of all members together, and give each member its part, of equal size."""
    own = chosen(group)
    name = "reduce_scatter_tensor"
    _same(name, "output and input", output, input)
    _raise_unless_multiple(name, input, output, own.size(), "input", "output")
    if _is_followed(output, input):
        part = functional.reduce_scatter(input.reshape(-1), op, 0, own).reshape(output.shape)
        return _replaced(name, output, lambda _: part, async_op)
    source = read(name, input)
    target, finish = written(name, output, reads=False)
    op = read_op(name, op, output.dtype)
    finish = _averaged(output, op, own.size(), finish)
    what = f"{name}({described(output)}, {described(input)}, {op.value})"
    return started(what, own, lambda: own.engine.reduce_scatter(source, target, summed(op)), finish, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Give the i-th member the i-th tensor of this one's inputs; its own become the outputs."""
    own = chosen(group)
    outputs = as_tensors("all_to_all", output_tensor_list, own.size())
    inputs = as_tensors("all_to_all", input_tensor_list, own.size())
    _same("all_to_all", "outputs and inputs", outputs[0], inputs[0])
    target, taken, finish = written_all("all_to_all", outputs)
    source, given = read_all("all_to_all", inputs)
    what = f"all_to_all({described(outputs)}, {described(inputs)})"
    return started(
        what, own, lambda: own.engine.all_to_all(source, target, given, taken), finish, async_op, given, taken
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The same for parts along the first dimension of one tensor: equal ones, or of the sizes given."""
    own = chosen(group)
    name = "all_to_all_single"
    source = read(name, input)
    target, finish = written(name, output, reads=False)
    _same(name, "output and input", output, input)
    given = _split_counts(name, "input", input, input_split_sizes, own.size())
    taken = _split_counts(name, "output", output, output_split_sizes, own.size())
    if given is None and taken is None and source.size != target.size:
        raise ValueError(
            f"{name}: without split sizes, output and input have the same size, not {described(output)} and {described(input)}"
        )
    if given is None and taken is not None:
        given = [source.size // own.size()] * own.size()
    if taken is None and given is not None:
        taken = [target.size // own.size()] * own.size()
    what = f"{name}({described(output)}, {described(input)})"
    amounts = (given, taken) if given is not None else ()
    return started(what, own, lambda: own.engine.all_to_all(source, target, given, taken), finish, async_op, *amounts)


def _split_counts(name: str, what: str, tensor: Tensor, sizes: Sequence[int] | None, members: int) -> list[int] | None:
    """How many elements go to each member, or come from it; None if they are equal."""
    if not tensor.ndim:
        raise ValueError(f"{name}: the {what} has no dimension to divide")
    length = tensor.shape[0]
    if not sizes:
        if length % members:
            raise ValueError(f"{name}: the first dimension of the {what}, {length}, does not divide by {members}")
        return None
    if len(sizes) != members or sum(sizes) != length or min(sizes) < 0:
        raise ValueError(
            f"{name}: {what}_split_sizes must be {members} sizes with the sum {length}, that of the first dimension of the "
            f"{what}, not {list(sizes)}"
        )
    row = tensor.numel() // length if length else 0
    return [size * row for size in sizes]


def start_send(tensor: Tensor, group: ProcessGroup, to: int, tag: int) -> Work:
    """Start to send a tensor to a member."""
    pending = group.engine.send(read("send", tensor), to, tag)
    return Work(f"send({described(tensor)}, dst={group.ranks[to]}, tag={tag})", group, pending, _nothing)


def start_recv(tensor: Tensor, group: ProcessGroup, sender: int | None, tag: int) -> Work:
    """Start to receive a tensor from a member, or from any."""
    buffer, finish = written("recv", tensor, reads=False)
    pending = group.engine.recv(buffer, sender, tag)
    whom = "any" if sender is None else group.ranks[sender]

    def received() -> int:
        finish()
        return _whole(pending, tensor, group)

    return Work(f"recv({described(tensor)}, src={whom}, tag={tag})", group, pending, received)


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Start to send a tensor to another process; it must be left alone until `wait` returns."""
    own = chosen(group)
    to = rank_of("isend", "dst", own, dst, group_dst, None)
    return start_send(tensor, own, to, _checked_tag("isend", tag))


def _checked_tag(name: str, tag: Any) -> int:
    if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag <= MOST_TAG:
        raise ValueError(f"{name}: a tag is a number from 0 to {MOST_TAG}, not {tag!r}")
    return tag


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Start to receive a tensor, by default from any process."""
    own = chosen(group)
    sender = None if src is None and group_src is None else rank_of("irecv", "src", own, src, group_src, None)
    return start_recv(tensor, own, sender, _checked_tag("irecv", tag))


def _whole(pending: Receiving, tensor: Tensor, group: ProcessGroup) -> int:
    """From whom a message came, if it had as many elements as were expected."""
    sender = group.ranks[pending.sender]
    if pending.count != tensor.numel():
        raise DistributedError(
            f"recv: rank {sender} sent {pending.count} elements, where {described(tensor)} was expected"
        )
    return sender


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to another process.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> x = lucid.zeros(2)
    >>> dist.send(lucid.ones(2), dst=0)
    >>> dist.recv(x, src=0), x
    (0, Tensor([1., 1.]))
    >>> dist.destroy_process_group()
    """
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor, by default from any process; returned is the rank of the one that sent it."""
    sender: int = irecv(tensor, src, group, tag, group_src).result()
    return sender


class P2POp:
    """A message to be sent or received by `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Callable[..., Work],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("P2POp: op must be lucid.distributed.isend or lucid.distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several messages, in an order that needs no care."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("batch_isend_irecv: expected a list of P2POp with at least one")
    return [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
