"""Modules as functions of their parameters, so that transforms apply to them.

A module is anything with `named_parameters` and `named_buffers` whose dotted names lead through attributes.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lucid.api.joining import stack
from lucid.core.tensor import Tensor
from lucid.forks import after_fork

__all__ = ["functional_call", "stack_module_state"]

# A call replaces attributes of the module for its duration, so calls of one module take turns.
_locks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


@after_fork
def _new_locks() -> None:
    global _locks, _locks_lock
    _locks, _locks_lock = weakref.WeakKeyDictionary(), threading.Lock()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers, and leave it as it was.

    Tensors that are not named keep their values. With `tie_weights=True`, naming one of several names of a shared
    tensor replaces it under all. With `strict=True` every parameter and buffer must be given, and nothing else;
    otherwise names that the module does not have are ignored. If the module assigns a new tensor to a name that was
    given, the dictionary gets it.

    Calls of one module in several threads wait for each other.

    >>> import lucid
    >>> from lucid.func.modules import functional_call
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter(lucid.tensor(1.0))
    ...     def forward(self, x):
    ...         return (self.factor * x).sum()
    >>> x = lucid.tensor([1.0, 2.0])
    >>> lucid.func.grad(lambda p: functional_call(Scale(), p, x))({"factor": lucid.tensor(5.0)})
    {'factor': Tensor(3.)}
    """
    given = parameter_and_buffer_dicts
    state = _state(given)
    replaced = _matched(module, state, tie_weights, strict)
    inputs = () if args is None else args if isinstance(args, tuple) else (args,)
    with _lock_of(module), _swapped(module, replaced) as slots:
        try:
            return module(*inputs, **(kwargs or {}))
        finally:
            if isinstance(given, dict):
                _write_back(given, slots)


def _state(given: Any) -> dict[str, Any]:
    """One dictionary of all that is given."""
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence) or not all(isinstance(d, Mapping) for d in given):
        raise ValueError(
            f"functional_call: the parameters and buffers must be a dictionary or several, not {type(given).__name__}"
        )
    merged: dict[str, Any] = {}
    for part in given:
        repeated = sorted(merged.keys() & part.keys())
        if repeated:
            raise ValueError(f"functional_call: {', '.join(repeated)} is given in more than one dictionary")
        merged.update(part)
    return merged


def _matched(module: Any, state: dict[str, Any], tie_weights: bool, strict: bool) -> dict[str, Any]:
    """The given tensors under every name of the module that they replace."""
    own = dict(_named(module))
    unexpected = [name for name in state if name not in own]
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    groups = list(names_of.values()) if tie_weights else [[name] for name in own]
    missing = [group[0] for group in groups if not any(name in state for name in group)]
    if strict and (unexpected or missing):
        raise RuntimeError(
            f"functional_call: the tensors do not fit {type(module).__name__}: "
            f"unexpected {', '.join(unexpected) or 'none'}; missing {', '.join(missing) or 'none'}"
        )
    replaced: dict[str, Any] = {}
    for group in groups:
        present = [name for name in group if name in state]
        if not present:
            continue
        value = state[present[0]]
        if any(state[name] is not value for name in present):
            raise ValueError(
                f"functional_call: {', '.join(present)} are names of one shared tensor but were given different ones; "
                "give one of them, or pass tie_weights=False"
            )
        replaced.update(dict.fromkeys(group, value))
    return replaced


def _named(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _lock_of(module: Any) -> Any:
    with _locks_lock:
        return _locks.setdefault(module, threading.RLock())


class _Slot:
    """One attribute of a module while something else stands in its place."""

    def __init__(self, module: Any, name: str, value: Any) -> None:
        self.name = name
        path, _, self.attribute = name.rpartition(".")
        self.owner = module
        for part in path.split(".") if path else ():
            self.owner = getattr(self.owner, part)
        self.original = getattr(self.owner, self.attribute)
        self.value = value

    # The module's own rules on what may be assigned do not hold for what stands in for a moment.
    def put(self) -> None:
        object.__setattr__(self.owner, self.attribute, self.value)

    def restore(self) -> None:
        object.__setattr__(self.owner, self.attribute, self.original)


@contextmanager
def _swapped(module: Any, replaced: dict[str, Any]) -> Iterator[list[_Slot]]:
    """The module with other tensors in the given places."""
    slots = [_Slot(module, name, value) for name, value in replaced.items()]
    try:
        for slot in slots:
            slot.put()
        yield slots
    finally:
        for slot in slots:
            slot.restore()


def _write_back(given: dict[str, Any], slots: Iterable[_Slot]) -> None:
    """Tell the caller which of his tensors the module has replaced by new ones, as it does with counters."""
    for slot in slots:
        now = getattr(slot.owner, slot.attribute, None)
        if slot.name in given and isinstance(now, Tensor) and now is not slot.value:
            given[slot.name] = now


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of several models of one kind, each stacked along a new first dimension.

    With `functional_call` under `vmap` they run as an ensemble.

    >>> import lucid
    >>> from lucid.func.modules import stack_module_state
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> def scale(factor):
    ...     module = Module()
    ...     module.factor = Parameter(lucid.tensor(factor))
    ...     return module
    >>> stack_module_state([scale(1.0), scale(2.0)])
    ({'factor': Tensor([1., 2.], requires_grad=True)}, {})
    """
    models = list(models)
    if not models:
        raise ValueError("stack_module_state: at least one model is needed")
    kinds = {type(m) for m in models}
    if len(kinds) > 1:
        raise ValueError(
            f"stack_module_state: the models are of different classes: {sorted(k.__name__ for k in kinds)}"
        )
    if len({bool(m.training) for m in models}) > 1:
        raise ValueError("stack_module_state: some models are in training mode and some are not")
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    return parameters, _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    first = states[0]
    if any(state.keys() != first.keys() for state in states):
        raise ValueError("stack_module_state: the models have parameters or buffers of different names")
    return {name: _leaf([state[name] for state in states], name) for name in first}


def _leaf(tensors: list[Tensor], name: str) -> Tensor:
    if len({(t.shape, t.dtype) for t in tensors}) > 1:
        raise ValueError(f"stack_module_state: {name} has different shapes or dtypes: {[t.shape for t in tensors]}")
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise ValueError(f"stack_module_state: {name} requires grad in some models and not in others")
    return stack([t.detach() for t in tensors]).requires_grad_(wanted.pop())
