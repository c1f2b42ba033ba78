"""Objects between processes: numbers, texts, lists, tuples, dicts and tensors. They travel as JSON and memory, never as code.

All else is refused: what could be anything would have to be unpickled, and that runs code of whoever sent it.
"""

import base64
import json
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.tensor import Tensor
from lucid.distributed import collectives
from lucid.distributed.calls import MOST_TAG, rank_of
from lucid.distributed.groups import ProcessGroup, chosen
from lucid.distributed.memory import read

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list", "send_object_list",
]  # fmt: skip

_TAG = MOST_TAG + 1


def packed(value: Any) -> Tensor:
    """An object as bytes: the length of a text, the text, and the memory of tensors."""
    memory: list[bytes] = []
    text = json.dumps(_encoded(value, memory)).encode()
    whole = b"".join([len(text).to_bytes(8, "little"), text, *memory])
    return Tensor._wrap(np.frombuffer(bytearray(whole), np.uint8))


def unpacked(data: Any) -> Any:
    """The object that was packed.

    >>> import lucid
    >>> from lucid.distributed.objects import packed, unpacked
    >>> unpacked(packed({"step": 3, "names": ("a", b"b"), "loss": lucid.tensor([0.5])}).numpy().tobytes())
    {'step': 3, 'names': ('a', b'b'), 'loss': Tensor([0.5])}
    """
    length = int.from_bytes(data[:8], "little")
    return _decoded(json.loads(data[8 : 8 + length]), [memoryview(data)[8 + length :]])


def _encoded(value: Any, memory: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_encoded(v, memory) for v in value]
    if type(value) is tuple:
        return {"tuple": [_encoded(v, memory) for v in value]}
    if type(value) is dict:
        return {"dict": [[_encoded(k, memory), _encoded(v, memory)] for k, v in value.items()]}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, Tensor):
        memory.append(read("an object", value.detach()).tobytes())
        return {"tensor": [value.dtype.name, list(value.shape)]}
    raise TypeError(
        f"objects between processes are made of numbers, texts, bytes, lists, tuples, dicts and tensors, and hold no "
        f"{type(value).__name__}; nothing is pickled"
    )


def _decoded(value: Any, memory: list[Any]) -> Any:
    if type(value) is list:
        return [_decoded(v, memory) for v in value]
    if type(value) is not dict:
        return value
    ((kind, inside),) = value.items()
    if kind == "tuple":
        return tuple(_decoded(v, memory) for v in inside)
    if kind == "dict":
        return {_decoded(k, memory): _decoded(v, memory) for k, v in inside}
    if kind == "bytes":
        return base64.b64decode(inside)
    if kind == "complex":
        return complex(*inside)
    dtype, shape = dtypes.as_numpy(inside[0]), tuple(inside[1])
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(memory[0][:size], np.uint8).copy().view(dtype).reshape(shape)
    memory[0] = memory[0][size:]
    return Tensor._wrap(array)


def _bytes(count: int) -> Tensor:
    return Tensor._wrap(np.empty(count, np.uint8))


def _lengths(length: int, group: ProcessGroup) -> list[int]:
    """The numbers that all members have."""
    out = Tensor._wrap(np.empty(group.size(), np.int64))
    collectives.all_gather_into_tensor(out, Tensor._wrap(np.array([length], np.int64)), group)
    return [int(n) for n in out.tolist()]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give all members what each of them has, in a list that is filled.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> found = [None]
    >>> dist.all_gather_object(found, {"step": 1})
    >>> found
    [{'step': 1}]
    >>> dist.destroy_process_group()
    """
    own = chosen(group)
    _raise_unless_room("all_gather_object", object_list, own)
    mine = packed(obj)
    parts = [_bytes(n) for n in _lengths(mine.numel(), own)]
    collectives.all_gather(parts, mine, own)
    object_list[:] = [unpacked(p.numpy().tobytes()) for p in parts]


def _raise_unless_room(name: str, objects: Any, group: ProcessGroup) -> None:
    if not isinstance(objects, list) or len(objects) != group.size():
        raise ValueError(f"{name}: expected a list with {group.size()} entries, one for each member")


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Give one member, by default the first, what each of them has, in a list that is filled."""
    own = chosen(group)
    root = rank_of("gather_object", "dst", own, dst, group_dst, 0)
    if own.rank() == root:
        _raise_unless_room("gather_object", object_gather_list, own)
    mine = packed(obj)
    lengths = _lengths(mine.numel(), own)
    room = [_bytes(max(lengths)) for _ in lengths] if own.rank() == root else None
    whole = _bytes(max(lengths))
    whole[: mine.numel()] = mine
    collectives.gather(whole, room, group=own, group_dst=root)
    if room is not None and object_gather_list is not None:
        object_gather_list[:] = [unpacked(p.numpy()[:n].tobytes()) for p, n in zip(room, lengths, strict=True)]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Give all members the objects that one of them, by default the first, has in a list, which is filled."""
    own = chosen(group)
    root = rank_of("broadcast_object_list", "src", own, src, group_src, 0)
    is_root = own.rank() == root
    mine = packed(object_list) if is_root else _bytes(0)
    length = _lengths(mine.numel(), own)[root]
    whole = mine if is_root else _bytes(length)
    collectives.broadcast(whole, group=own, group_src=root)
    _fill("broadcast_object_list", object_list, unpacked(whole.numpy().tobytes()))


def _fill(name: str, objects: list[Any], found: list[Any]) -> None:
    if len(found) != len(objects):
        raise ValueError(f"{name}: {len(found)} objects came for a list of {len(objects)}")
    objects[:] = found


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each member one object of the list that one of them, by default the first, has; it becomes the first entry."""
    own = chosen(group)
    root = rank_of("scatter_object_list", "src", own, src, group_src, 0)
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: the list of outputs needs an entry to be filled")
    mine: list[Tensor] = []
    if own.rank() == root:
        _raise_unless_room("scatter_object_list", scatter_object_input_list, own)
        mine = [packed(o) for o in scatter_object_input_list or ()]
    most = _lengths(max((m.numel() for m in mine), default=0), own)[root]
    parts = [_bytes(most) for _ in mine]
    for part, one in zip(parts, mine, strict=True):
        part[: one.numel()] = one
    room = _bytes(most)
    collectives.scatter(room, parts or None, group=own, group_src=root)
    scatter_object_output_list[0] = unpacked(room.numpy().tobytes())


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to another process, which calls `recv_object_list`."""
    own = chosen(group)
    to = rank_of("send_object_list", "dst", own, dst, group_dst, None)
    data = packed(object_list)
    length = Tensor._wrap(np.array([data.numel()], np.int64))
    works = [collectives.start_send(t, own, to, _TAG + i) for i, t in enumerate((length, data))]
    for work in works:
        work.wait()


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list, by default from any process; returned is the rank of the one that sent them."""
    own = chosen(group)
    anyone = src is None and group_src is None
    sender = None if anyone else rank_of("recv_object_list", "src", own, src, group_src, None)
    length = Tensor._wrap(np.empty(1, np.int64))
    rank: int = collectives.start_recv(length, own, sender, _TAG).result()
    data = _bytes(int(length.item()))
    collectives.start_recv(data, own, own.member(rank), _TAG + 1).wait()
    _fill("recv_object_list", object_list, unpacked(data.numpy().tobytes()))
    return rank
