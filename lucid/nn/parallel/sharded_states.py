"""States of modules and optimizers whose parameters are divided among processes, for checkpoints of parts.

Each process writes and reads its own parts, and any other number of processes, divided in any way, reads them again.
"""

from typing import Any

from lucid import Tensor
from lucid.distributed.parts import Shard, place_of
from lucid.nn.module import Module

__all__ = [
    "load_sharded_optimizer_state_dict",
    "load_sharded_state_dict",
    "sharded_optimizer_state_dict",
    "sharded_state_dict",
]


def _described(part: Any, tensor: Any) -> Any:
    """A tensor of the form of a part, with its place in the whole."""
    place = place_of(part)
    if place is None or not isinstance(tensor, Tensor) or tuple(tensor.shape) != tuple(part.shape):
        return tensor
    return Shard(tensor, place.offsets, place.shape)


def _own(part: Any, value: Any) -> Any:
    """What a process has of a tensor that comes whole, or as its part."""
    if isinstance(value, Shard):
        return value.tensor
    place = place_of(part)
    if place is None or not isinstance(value, Tensor) or tuple(value.shape) == tuple(part.shape):
        return value
    table = value.reshape(place.shape)  # a single number is divided as a vector of one
    return table[tuple(slice(o, o + n) for o, n in zip(place.offsets, part.shape, strict=True))]


def sharded_state_dict(module: Module) -> dict[str, Any]:
    """The state of a module, in which parts of parameters are `Shard`s: what `save_parallel` and `load_parallel` take.

    >>> import lucid, tempfile
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import fully_shard, sharded_state_dict
    >>> dist.init_process_group("single")
    >>> model, folder = fully_shard(lucid.nn.Linear(2, 3)), tempfile.mkdtemp()
    >>> lucid.save_parallel(sharded_state_dict(model), folder)
    >>> _ = lucid.load_parallel(folder, sharded_state_dict(model))  # in place
    >>> lucid.load_parallel(folder)["weight"].shape
    (3, 2)
    >>> dist.destroy_process_group()
    """
    parts = dict(module.named_parameters(remove_duplicate=False))
    return {name: _described(parts.get(name), value) for name, value in module.state_dict().items()}


def load_sharded_state_dict(module: Module, state: dict[str, Any]) -> None:
    """Load a state of whole tensors or of parts into a module whose parameters are divided."""
    parts = dict(module.named_parameters(remove_duplicate=False))
    module.load_state_dict({name: _own(parts.get(name), value) for name, value in state.items()})


def _with_entries(optimizer: Any, state: dict[str, Any], change: Any) -> dict[str, Any]:
    parts = [p for group in optimizer.param_groups for p in group["params"]]
    entries = {
        number: {name: value if name == "step" else change(parts[int(number)], value) for name, value in entry.items()}
        for number, entry in state["state"].items()
    }
    return {**state, "state": entries}


def sharded_optimizer_state_dict(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer, in which what belongs to parts of parameters are `Shard`s like them."""
    return _with_entries(optimizer, optimizer.state_dict(), _described)


def load_sharded_optimizer_state_dict(optimizer: Any, state: dict[str, Any]) -> None:
    """Load a state of whole tensors or of parts into an optimizer of divided parameters, which has taken no step yet."""
    optimizer.load_state_dict(_with_entries(optimizer, state, _own))
