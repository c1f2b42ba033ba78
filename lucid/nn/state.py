"""The state of a module as a dictionary from names to tensors, and back."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import lucid
from lucid import Tensor
from lucid.core.hooks import RemovableHandle
from lucid.core.tree import MAX_DEPTH
from lucid.nn.module_hooks import add_hook
from lucid.nn.parameter import Parameter
from lucid.nn.registry import BUFFER, MODULE, PARAMETER, M, Registry

__all__ = ["register_module_load_state_dict_post_hook", "register_module_load_state_dict_pre_hook"]

EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found no value for, and what it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StateHooks:
    """All that is hung on saving and loading one module."""

    def __init__(self) -> None:
        self.save_pre: dict[int, Callable[..., Any]] = {}
        self.save: dict[int, Callable[..., Any]] = {}
        self.load_pre: dict[int, Callable[..., Any]] = {}
        self.load_post: dict[int, Callable[..., Any]] = {}


_everywhere = StateHooks()  # the hooks on all modules


def _hooks_of(module: Any, kind: str) -> list[Callable[..., Any]]:
    """The hooks on all modules and those of this one, in the order in which they run."""
    own = module._state_hooks
    return [*getattr(_everywhere, kind).values(), *(getattr(own, kind).values() if own else ())]


def register_module_load_state_dict_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook before any module reads its part of a state, as `Module.register_load_state_dict_pre_hook` for one.

    >>> from lucid.nn import Linear, register_module_load_state_dict_pre_hook
    >>> net = Linear(2, 1)
    >>> with register_module_load_state_dict_pre_hook(lambda module, state, prefix, *rest: print(sorted(state))):
    ...     net.load_state_dict(net.state_dict())
    ['bias', 'weight']
    <All keys matched successfully>
    """
    return add_hook(_everywhere.load_pre, hook)


def register_module_load_state_dict_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook when any module has loaded a state, as `Module.register_load_state_dict_post_hook` for one.

    >>> from lucid.nn import Linear, register_module_load_state_dict_post_hook
    >>> with register_module_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear()):
    ...     Linear(2, 1).load_state_dict({})
    <All keys matched successfully>
    """
    return add_hook(_everywhere.load_post, hook)


class Errors(list[str]):
    """Why a state cannot be loaded, and the writes that wait until it is known that it can."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Callable[[], Any]] = []


class Stateful(Registry[M]):
    """The part of `Module` that deals with saving and loading."""

    _version: int = 1
    _state_hooks: StateHooks | None = None

    def _state_hook_tables(self) -> StateHooks:
        if self._state_hooks is None:
            self._state_hooks = StateHooks()
        return self._state_hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module writes its part of a `state_dict`."""
        return add_hook(self._state_hook_tables().save_pre, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when the module has written its part."""
        return add_hook(self._state_hook_tables().save, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before the module reads its part of a state, which the hook may change."""
        return add_hook(self._state_hook_tables().load_pre, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` when a state has been loaded; it may change the lists of keys."""
        return add_hook(self._state_hook_tables().load_post, hook)

    def get_extra_state(self) -> Any:
        """More state, which may be anything, to go into `state_dict`; defined by subclasses that have some."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; define get_extra_state and set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; define get_extra_state and set_extra_state")

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Every parameter and persistent buffer by its path.

        The tensors share memory with the module's, and are detached from the graph unless `keep_vars=True`.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> net = Module()
        >>> net.weight = Parameter(lucid.ones(2))
        >>> dict(net.state_dict())
        {'weight': Tensor([1., 1.])}
        """
        _check_depth(self, prefix)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]  # carried along by pickle
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix.removesuffix(".")] = metadata
        hooks = self._state_hooks
        for hook in list(hooks.save_pre.values()) if hooks else ():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._own(MODULE):
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(hooks.save.values()) if hooks else ():
            replaced = hook(self, destination, prefix, metadata)
            destination = destination if replaced is None else replaced
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Write this module's own tensors, without those of its submodules."""
        for name, value in self._own(PARAMETER) + self._own(BUFFER):
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors (or NumPy arrays) into the parameters and buffers of the same paths.

        With `strict=True`, missing and unexpected keys are errors. With `assign=True` the given tensors become the
        parameters, with their own dtype, rather than being copied into them. Everything that is wrong is reported at
        once, and then nothing has been changed.

        >>> import lucid
        >>> import numpy as np
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> net = Module()
        >>> net.weight = Parameter(lucid.ones(2))
        >>> net.load_state_dict({"weight": np.array([3.0, 4.0])})
        <All keys matched successfully>
        >>> net.weight
        Parameter containing:
        Tensor([3., 4.], requires_grad=True)
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict needs a dictionary, not {type(state_dict).__name__}")
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        errors, keys = Errors(), IncompatibleKeys([], [])
        visited: list[Any] = []
        _load(self, state, "", metadata, assign, keys, errors, visited)
        visited.reverse()  # children before their parents
        post_hooks = [(m, h) for m in visited for h in _hooks_of(m, "load_post")]
        _raise_if_wrong(self, errors, keys, strict and not post_hooks)
        with lucid.no_grad():
            for write in errors.writes:
                write()
        for module, hook in post_hooks:
            if hook(module, keys) is not None:
                raise TypeError("a load_state_dict post-hook must return None; change the lists of keys in place")
        _raise_if_wrong(self, errors, keys, strict)
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Read this module's own tensors, without those of its submodules."""
        assign = local_metadata.get("assign_to_params_buffers", False)
        writes = error_msgs.writes if isinstance(error_msgs, Errors) else []
        own = self._own(PARAMETER) + self._own(BUFFER)
        for name, target in own:
            key = prefix + name
            if key in state_dict:
                if target is not None:
                    _plan_write(self, name, key, state_dict[key], assign, writes, error_msgs)
            elif strict and target is not None:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys, writes)
        if strict:
            known = {name for name, target in own if target is not None}
            known |= {name for name, module in self._own(MODULE) if module is not None} | {EXTRA}
            unexpected_keys.extend(k for k in state_dict if _is_unknown(k, prefix, known, self))
        if not isinstance(error_msgs, Errors):
            with lucid.no_grad():
                for write in writes:
                    write()

    def _load_extra_state(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        writes: list[Callable[[], Any]],
    ) -> None:
        key = prefix + EXTRA
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state_dict:
                writes.append(lambda: self.set_extra_state(state_dict[key]))
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)


def _check_depth(module: Any, prefix: str) -> None:
    """The names in a state have as many dots as modules are nested, so that those of deep nests would fill the memory."""
    if prefix.count(".") > MAX_DEPTH:
        module._bottom_up("state_dict")  # raises if the module contains itself
        raise ValueError(f"state_dict: modules are nested more than {MAX_DEPTH} deep, which a state cannot hold")


def _is_unknown(key: str, prefix: str, known: set[str], module: Any) -> bool:
    """Whether a key belongs to this module, rather than to one above it, and names nothing of it."""
    if not key.startswith(prefix):
        return False
    name, dot, _ = key[len(prefix) :].partition(".")
    if name not in known:
        return True
    return bool(dot) and module._kinds.get(name) != MODULE


def _load(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    metadata: Any,
    assign: bool,
    keys: IncompatibleKeys,
    errors: Errors,
    visited: list[Any],
) -> None:
    """Let a module and everything below it plan how to take its part of a state."""
    _check_depth(module, prefix)
    local = {} if metadata is None else dict(metadata.get(prefix.removesuffix("."), {}))
    if assign:
        local["assign_to_params_buffers"] = True
    # Keys are always compared; whether a difference is an error is decided at the end.
    arguments = (state, prefix, local, True, keys.missing_keys, keys.unexpected_keys, errors)
    for hook in _hooks_of(module, "load_pre"):
        hook(module, *arguments)
    module._load_from_state_dict(*arguments)
    visited.append(module)
    parts = _by_child(state, prefix)
    for name, child in module._own(MODULE):
        if child is not None:
            _load(child, parts.get(name, {}), f"{prefix}{name}.", metadata, assign, keys, errors, visited)


def _by_child(state: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """The parts of a state that belong to what is below a module, by the name that it has there."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            name, dot, _ = key[len(prefix) :].partition(".")
            if dot:
                parts.setdefault(name, {})[key] = value
    return parts


def _plan_write(
    module: Any, name: str, key: str, given: Any, assign: bool, writes: list[Callable[[], Any]], errors: list[str]
) -> None:
    """Check one value, and plan to write it."""
    if not isinstance(given, (Tensor, np.ndarray, np.generic)):
        errors.append(f"{key}: a tensor or a NumPy array is needed, not {type(given).__name__}")
        return
    target = getattr(module, name)
    if given.shape != target.shape:
        errors.append(
            f"size mismatch for {key}: the shape in the state is {tuple(given.shape)}, in the module {target.shape}"
        )
        return
    if assign:
        writes.append(lambda: _assign(module, name, given))
    elif target.is_meta and not getattr(given, "is_meta", False):
        errors.append(f"{key}: the module has no elements (device 'meta') to be written; use assign=True")
    else:
        writes.append(lambda: target.copy_(given))


def _assign(module: Any, name: str, given: Any) -> None:
    old = getattr(module, name)
    if not isinstance(old, Parameter):
        setattr(module, name, lucid.as_tensor(given))
    elif isinstance(given, Parameter):
        setattr(module, name, given.requires_grad_(old.requires_grad))
    else:
        setattr(module, name, Parameter(given, requires_grad=old.requires_grad))


def _raise_if_wrong(module: Any, errors: Errors, keys: IncompatibleKeys, strict: bool) -> None:
    found = list(errors)
    if strict and keys.unexpected_keys:
        found.append("Unexpected key(s): " + ", ".join(map(repr, keys.unexpected_keys)))
    if strict and keys.missing_keys:
        found.append("Missing key(s): " + ", ".join(map(repr, keys.missing_keys)))
    if found:
        raise RuntimeError(f"the state does not fit {type(module).__name__}:\n\t" + "\n\t".join(found))
