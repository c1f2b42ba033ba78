"""What a module registers: its parameters, buffers and submodules, and how they are found again.

They stand in the module's `__dict__` like any attribute, so that reading them costs nothing extra (a `__getattr__`,
even unused, would make every read five times slower); the table `_kinds` says which attributes are registered, and as
what, in order of registration.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lucid import Tensor
from lucid.core.hooks import RemovableHandle
from lucid.ir import changes
from lucid.nn.module_hooks import add_hook
from lucid.nn.parameter import Buffer, Parameter, UninitializedParameter, is_persistent

__all__ = [
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

M = TypeVar("M", bound="Registry[Any]")  # the class of submodules

PARAMETER, BUFFER, TEMPORARY, MODULE = "parameter", "buffer", "non-persistent buffer", "module"
BUFFERS = (BUFFER, TEMPORARY)
_WANTED = {PARAMETER: "Parameter", BUFFER: "Tensor", TEMPORARY: "Tensor", MODULE: "Module"}
_set, _delete = object.__setattr__, object.__delattr__

# What is called when any module registers something of a kind.
_on_registration: dict[str, dict[int, Callable[..., Any]]] = {PARAMETER: {}, BUFFER: {}, MODULE: {}}
_on_registration[TEMPORARY] = _on_registration[BUFFER]


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when any module registers a parameter; what it returns, if not None, is taken.

    >>> from lucid import nn
    >>> with nn.register_module_parameter_registration_hook(lambda module, name, p: print(name, p.shape)):
    ...     _ = nn.Linear(2, 3)
    weight (3, 2)
    bias (3,)
    """
    return add_hook(_on_registration[PARAMETER], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when any module registers a buffer; what it returns, if not None, is taken.

    >>> from lucid import nn
    >>> with nn.register_module_buffer_registration_hook(lambda module, name, b: print(name, b.shape)):
    ...     _ = nn.BatchNorm1d(2, affine=False)
    running_mean (2,)
    running_var (2,)
    num_batches_tracked ()
    """
    return add_hook(_on_registration[BUFFER], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when any module registers a submodule; what it returns, if not None, is taken.

    >>> from lucid import nn
    >>> with nn.register_module_module_registration_hook(lambda module, name, m: nn.Tanh() if type(m) is nn.ReLU else m):
    ...     nn.Sequential(nn.ReLU())
    Sequential(
      (0): Tanh()
    )
    """
    return add_hook(_on_registration[MODULE], hook)


class Registry(Generic[M]):
    """The part of `Module` that deals with what belongs to it."""

    _kinds: dict[str, str] | Any = None
    module_type: type = object  # `Module`, once it exists: its attributes are names that nothing can be registered by

    def __init__(self) -> None:
        for name in self._kinds or ():
            _delete(self, name)
        _set(self, "_kinds", {})

    counts_changes = True  # for compiled functions, which then need not look at each attribute

    def __setattr__(self, name: str, value: Any) -> None:
        changes.count[0] += 1
        if isinstance(value, _REGISTRABLE):
            kind = _kind_of(value)
            if kind is not None and not isinstance(getattr(type(self), name, None), property):
                self._assign(name, value, kind)
                return
        kinds = self._kinds
        if kinds is not None and name in kinds:
            self._raise_unless_fits(name, value, kinds[name])
            value = self._after_hooks(name, value, kinds[name])
        _set(self, name, value)

    def _assign(self, name: str, value: Any, kind: str) -> None:
        """Register what was assigned to an attribute, in place of whatever was there."""
        old = self._registry().get(name)
        if kind == MODULE and old == PARAMETER:
            self._raise_unless_fits(name, value, old)
        if old is None:
            _check_name(name, kind)
        kind = old if old in BUFFERS and kind in BUFFERS else kind
        self._put(name, self._after_hooks(name, value, kind), kind)

    def _after_hooks(self, name: str, value: Any, kind: str) -> Any:
        """What is to be registered, by the hooks on all modules; a missing parameter is not shown to them."""
        hooks = _on_registration[kind]
        if hooks and (value is not None or kind != PARAMETER):
            for hook in list(hooks.values()):
                new = hook(self, name, value)
                value = value if new is None else new
        return value

    def _raise_unless_fits(self, name: str, value: Any, kind: str) -> None:
        if value is not None and not (kind in BUFFERS and isinstance(value, Tensor)):
            raise TypeError(
                f"{type(self).__name__}.{name} is registered as a {kind}; it can be set to a {_WANTED[kind]} or None, "
                f"not to a {type(value).__name__}"
            )

    def _put(self, name: str, value: Any, kind: str) -> None:
        kinds = self._kinds
        if kinds.get(name) != kind:
            kinds.pop(name, None)  # a registration as something else goes to the end
        kinds[name] = kind
        changes.count[0] += 1
        _set(self, name, value)

    def _registry(self) -> dict[str, str]:
        if self._kinds is None:
            raise AttributeError(
                f"call super().__init__() in {type(self).__name__}.__init__ before parameters, buffers or modules "
                "are assigned"
            )
        return self._kinds

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __getstate__(self) -> dict[str, Any]:
        # A shallow copy registers for itself.
        return {**self.__dict__, "_kinds": dict(self._kinds or {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        changes.count[0] += 1
        self.__dict__.update(state)

    def __delattr__(self, name: str) -> None:
        changes.count[0] += 1
        _delete(self, name)
        if self._kinds is not None:
            self._kinds.pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name for later.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.register_parameter("bias", None)
        >>> layer.bias is None, [name for name, _ in layer.named_parameters()]
        (True, ['weight'])
        """
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"register_parameter: {name!r} must be a Parameter or None, not {type(param).__name__}")
        self._register(name, param, PARAMETER)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not trained; with `persistent=False` it is not saved.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.register_buffer("mean", lucid.zeros(2))
        >>> list(layer.state_dict())
        ['weight', 'mean']
        """
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} must be a Tensor or None, not {type(tensor).__name__}")
        self._register(name, tensor, BUFFER if persistent else TEMPORARY)

    def register_module(self, name: str, module: M | None) -> None:
        """Add a submodule under a name.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> net = Module()
        >>> net.register_module("layer", layer)
        >>> [name for name, _ in net.named_parameters()]
        ['layer.weight']
        """
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"register_module: {name!r} must be a Module or None, not {type(module).__name__}")
        self._register(name, module, MODULE)

    add_module = register_module

    def _register(self, name: str, value: Any, kind: str) -> None:
        old = self._registry().get(name)
        _check_name(name, kind)
        if old != kind and not (old in BUFFERS and kind in BUFFERS) and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}")
        self._put(name, self._after_hooks(name, value, kind), kind)

    @property
    def _parameters(self) -> "Registered":
        return Registered(self, PARAMETER)

    @property
    def _buffers(self) -> "Registered":
        return Registered(self, BUFFER, TEMPORARY)

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        return {name for name, _ in self._own(TEMPORARY)}

    @property
    def _modules(self) -> "Registered":
        return Registered(self, MODULE)

    def get_submodule(self, target: str) -> M:
        """The submodule at a dotted path; "" is the module itself."""
        module: Any = self
        for part in target.split(".") if target else ():
            found = getattr(module, part, None)
            if not isinstance(found, Registry):
                raise AttributeError(f"{type(module).__name__} has no submodule {part!r} (looking for {target!r})")
            module = found
        return module

    def set_submodule(self, target: str, module: M, strict: bool = False) -> None:
        """Put a module at a dotted path, in place of the one that is there; with `strict`, one must be there."""
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError(f"set_submodule: {target!r} names no submodule")
        parent = self.get_submodule(path)
        if parent._kinds.get(name) != MODULE and (strict or hasattr(parent, name)):
            raise AttributeError(f"{type(parent).__name__} has no submodule {name!r} (looking for {target!r})")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a dotted path."""
        return self._get(target, PARAMETER)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        return self._get(target, *BUFFERS)

    def _get(self, target: str, *kinds: str) -> Tensor:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._kinds.get(name) not in kinds:
            raise AttributeError(f"{type(module).__name__} has no {kinds[0]} {name!r} (looking for {target!r})")
        return getattr(module, name)

    def _own(self, *kinds: str) -> list[tuple[str, Any]]:
        """What is registered here as one of these kinds, by name."""
        # Not by way of __dict__, which would cost the reads of attributes a fast path of the interpreter.
        return [(name, getattr(self, name)) for name, kind in self._kinds.items() if kind in kinds]

    def _bottom_up(self, method: str) -> list[tuple[Any, bool]]:
        """The modules below, children first, then this one; and for each whether it has `method` from `Module`.

        One that has its own answers for what is below it. There is no recursion: modules may be nested very deep.
        """
        inherited = getattr(Registry.module_type, method)
        found: list[tuple[Any, bool]] = []
        above: set[int] = set()
        frontier: list[tuple[Any, bool]] = [(self, False)]
        while frontier:
            module, is_done = frontier.pop()
            if is_done:
                above.remove(id(module))
                continue
            if id(module) in above:
                raise ValueError(f"{method}: a {type(module).__name__} contains itself")
            inherits = module is self or getattr(getattr(module, method), "__func__", None) is inherited
            found.append((module, inherits))
            if inherits:
                above.add(id(module))
                frontier.append((module, True))
                frontier += [(child, False) for child in module.children()]
        found.reverse()
        return found

    def _named_members(
        self, kinds: tuple[str, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Iterable[tuple[str, Any]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, kind in list(module._kinds.items()):
                if kind not in kinds:
                    continue
                value = getattr(module, name)
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Name and value of each parameter; one that is shared comes once, unless `remove_duplicate=False`."""
        return self._named_members((PARAMETER,), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter, as optimizers want them."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def has_uninitialized_parameters(self, recurse: bool = True) -> bool:
        """Whether a parameter still waits for its shape, as those of lazy layers do before the first call."""
        return any(isinstance(parameter, UninitializedParameter) for parameter in self.parameters(recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Name and value of each buffer."""
        return self._named_members(BUFFERS, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Each buffer."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, M]]:
        """Name and value of each submodule registered here, without theirs."""
        seen: set[int] = set()
        for name, module in self._own(MODULE):
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[M]:
        """Each submodule registered here, without theirs."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, M]]:
        """Path and value of the module itself and of everything below it, parents first."""
        memo = set() if memo is None else memo
        above: set[int] = set()  # of use where duplicates stay
        frontier: list[tuple[str | None, Any]] = [(prefix, self)]
        while frontier:
            path, module = frontier.pop()
            if path is None:
                above.remove(id(module))
                continue
            if id(module) in memo:
                continue
            if remove_duplicate:
                memo.add(id(module))
            elif id(module) in above:
                raise ValueError(f"{type(module).__name__} contains itself, under the name {path!r}")
            else:
                above.add(id(module))
                frontier.append((None, module))
            yield path, module
            for name, kind in reversed(module._kinds.items()):
                if kind == MODULE and (child := getattr(module, name)) is not None:
                    frontier.append((f"{path}.{name}" if path else name, child))

    def modules(self, remove_duplicate: bool = True) -> Iterator[M]:
        """The module itself and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module


class Registered(MutableMapping[str, Any]):
    """A module's parameters, buffers or submodules as a dictionary; writing to it registers."""

    def __init__(self, module: Registry[Any], *kinds: str) -> None:
        self._module = module
        self._allowed = kinds

    def __getitem__(self, name: str) -> Any:
        if self._module._kinds.get(name) not in self._allowed:
            raise KeyError(name)
        return getattr(self._module, name)

    def __setitem__(self, name: str, value: Any) -> None:
        old = self._module._kinds.get(name)
        self._module._put(name, value, old if old is not None and old in self._allowed else self._allowed[0])

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._module._own(*self._allowed)])

    def __len__(self) -> int:
        return len(self._module._own(*self._allowed))

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def items(self) -> Any:
        """Names and entries, as those of a dictionary: they can be gone through in reverse."""
        return dict(self._module._own(*self._allowed)).items()

    def __repr__(self) -> str:
        return repr(dict(self))


_REGISTRABLE = (Tensor, Registry)


def _kind_of(value: Any) -> str | None:
    """As what an assigned value is to be registered."""
    if isinstance(value, Registry):
        return MODULE
    if isinstance(value, Parameter):
        return PARAMETER
    if isinstance(value, Buffer):
        return BUFFER if is_persistent(value) else TEMPORARY
    return None


def _check_name(name: Any, kind: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a string, not {type(name).__name__}")
    if not name or "." in name:
        raise KeyError(f"the name of a {kind} must not be empty or contain a dot, got {name!r}")
    if hasattr(Registry.module_type, name):
        raise KeyError(f"{name!r} is an attribute that every module has; choose another name for the {kind}")
