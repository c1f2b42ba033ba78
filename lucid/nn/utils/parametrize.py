"""Parametrizations: a parameter as the result of modules applied to what is really trained.

Afterwards `module.weight` is computed from `module.parametrizations.weight.original` whenever it is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn.containers import ModuleDict, ModuleList
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.nn.registry import BUFFERS, PARAMETER

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_cache: ContextVar[dict[tuple[int, str], Tensor] | None] = ContextVar("parametrization_cache", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """A context in which each parametrized tensor is computed once, however often it is read.

    >>> from lucid.nn.utils import parametrize
    >>> with parametrize.cached():
    ...     pass
    """
    token = _cache.set({} if _cache.get() is None else _cache.get())
    try:
        yield
    finally:
        _cache.reset(token)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they are applied to: `original`, or `original0`, `original1`...

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import parametrize
    >>> class Exp(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> parametrize.ParametrizationList([Exp()], Parameter(lucid.zeros(2)))()
    Tensor([1., 1.], grad_fn=<exp>)
    """

    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Iterable[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with lucid.no_grad():
            new = _inverse(list(self), original, skip_missing=True)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        for name, value in zip(self._originals(), [new] if self.is_tensor else new, strict=True):
            self._hold(name, value, original)
        if not unsafe:
            with lucid.no_grad():
                _check_like(self(), original, "the parametrization", "the tensor that it replaces")
        if self.is_tensor and isinstance(original, Parameter):
            original.data = self.originals()[0].data
            self.register_parameter("original", original)  # the same object, so that optimizers keep hold of it

    def _originals(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _hold(self, name: str, value: Any, original: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"right_inverse must give tensors, not {type(value).__name__}")
        if isinstance(original, Parameter):
            self.register_parameter(name, Parameter(value.detach().clone(), original.requires_grad))
        else:
            self.register_buffer(name, value)

    @property
    def parametrization(self) -> Module:
        """The first of the parametrizations."""
        return self[0]

    def originals(self) -> list[Tensor]:
        """What the parametrizations are applied to."""
        return [getattr(self, name) for name in self._originals()]

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        value: Any = self.originals()
        for module in self:
            value = module(*value) if isinstance(value, list) else module(value)
        return value[0] if isinstance(value, list) else value

    def right_inverse(self, value: Tensor) -> None:
        """Choose the originals so that the parametrized tensor becomes `value`."""
        with lucid.no_grad():
            new = _inverse(list(self), value, skip_missing=False)
            given = [new] if isinstance(new, Tensor) else list(new)
            originals = self.originals()
            if len(given) != len(originals):
                raise ValueError(f"right_inverse gave {len(given)} tensors where there are {len(originals)} originals")
            for old, fresh in zip(originals, given, strict=True):
                if not self.unsafe:
                    _check_like(fresh, old, "right_inverse", "the original")
            for old, fresh in zip(originals, given, strict=True):
                old.data = fresh.detach().clone()


def _inverse(modules: Sequence[Module], value: Any, skip_missing: bool) -> Any:
    for module in reversed(modules):
        if hasattr(module, "right_inverse"):
            value = module.right_inverse(value)
        elif not skip_missing:
            raise RuntimeError(
                f"the tensor cannot be assigned to: its parametrization {type(module).__name__} has no right_inverse"
            )
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(f"right_inverse must give a tensor or several, not {type(value).__name__}")
    return value


def _check_like(value: Any, wanted: Tensor, what: str, other: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must give a tensor, not {type(value).__name__}")
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        raise ValueError(
            f"{what} gives {value.shape} of {value.dtype}, but {other} has {wanted.shape} of {wanted.dtype}; "
            "pass unsafe=True to register_parametrization if this is meant to be so"
        )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `parametrization`, a module, compute a parameter or buffer of `module` from what is trained instead.

    A second registration is applied to the result of the first. If the parametrization has a method `right_inverse`,
    the tensor can be assigned to, and its present value gives the first original. It must keep shape and dtype unless
    `unsafe=True`.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import parametrize
    >>> class Symmetric(Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> _ = parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> layer.weight.detach()
    Tensor([[1., 2.],
            [2., 4.]])
    >>> [name for name, _ in layer.named_parameters()]
    ['parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _register_another(module, tensor_name, parametrization, unsafe)
        return module
    if module._kinds.get(tensor_name) not in (PARAMETER, *BUFFERS) or getattr(module, tensor_name) is None:
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {tensor_name!r} to parametrize")
    entries = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.__class__ = _parametrized_class(type(module))
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _computed(tensor_name))
    module.parametrizations[tensor_name] = entries
    return module


def _register_another(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    entries = _entries(module)[name]
    if not unsafe:
        with lucid.no_grad():
            before = getattr(module, name)
            after = parametrization(before)
            _check_like(after, before, "the parametrization", "the tensor that it is applied to")
            if hasattr(parametrization, "right_inverse"):
                _check_like(parametrization.right_inverse(after), before, "right_inverse", "the tensor")
    entries.append(parametrization)
    entries.unsafe |= unsafe


def _entries(module: Module) -> ModuleDict:
    return module.parametrizations


def _computed(name: str) -> property:
    """The attribute that stands for a parametrized tensor."""

    def read(self: Module) -> Tensor:
        cache = _cache.get()
        key = (id(self), name)
        if cache is None:
            return _entries(self)[name]()
        if key not in cache:
            cache[key] = _entries(self)[name]()
        return cache[key]

    def write(self: Module, value: Tensor) -> None:
        cache = _cache.get()
        if cache is not None:
            cache.pop((id(self), name), None)
        _entries(self)[name].right_inverse(value)

    return property(read, write)


class Parametrized:
    """Mixed into the class of a module with parametrizations. Each such module has a class of its own, which carries
    its computed attributes and is made again when the module is copied or unpickled."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        names = tuple(_entries(self))  # type: ignore[arg-type]  # it is a module
        return _rebuilt, (type_before_parametrizations(self), names), self.__getstate__()  # type: ignore[arg-type]


def _parametrized_class(base: type) -> type:
    return type(f"Parametrized{base.__name__}", (Parametrized, base), {"__module__": base.__module__})


def _rebuilt(base: type, names: tuple[str, ...]) -> Any:
    kind = _parametrized_class(base)
    for name in names:
        setattr(kind, name, _computed(name))
    return object.__new__(kind)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of this tensor.

    >>> from lucid.nn.module import Module
    >>> from lucid.nn.utils import parametrize
    >>> parametrize.is_parametrized(Module())
    False
    """
    if not isinstance(module, Parametrized):
        return False
    return tensor_name is None or tensor_name in _entries(module)


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before anything was parametrized.

    >>> from lucid.nn.module import Module
    >>> from lucid.nn.utils import parametrize
    >>> parametrize.type_before_parametrizations(Module())
    <class 'lucid.nn.module.Module'>
    """
    return type(module).__bases__[1] if isinstance(module, Parametrized) else type(module)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again, with its present value or, if not so wanted, the original's.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import parametrize
    >>> class Exp(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.zeros(2))
    >>> _ = parametrize.register_parametrization(layer, "weight", Exp())
    >>> parametrize.remove_parametrizations(layer, "weight").weight
    Parameter containing:
    Tensor([1., 1.], requires_grad=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of {tensor_name!r}")
    entries = _entries(module)[tensor_name]
    if not entries.is_tensor and not leave_parametrized:
        raise ValueError(
            f"{tensor_name!r} is made from {entries.ntensors} tensors, so none of them can take its place; "
            "use leave_parametrized=True"
        )
    tensor = _present_value(module, tensor_name, entries) if leave_parametrized else entries.originals()[0]
    delattr(type(module), tensor_name)
    del _entries(module)[tensor_name]
    if isinstance(tensor, Parameter):
        module.register_parameter(tensor_name, tensor)
    else:
        module.register_buffer(tensor_name, tensor)
    if not len(_entries(module)):
        del module.parametrizations
        module.__class__ = type_before_parametrizations(module)
    return module


def _present_value(module: Module, name: str, entries: ParametrizationList) -> Tensor:
    """What a parametrized tensor is now, as a parameter or buffer."""
    first = entries.originals()[0]
    with lucid.no_grad():
        value: Tensor = getattr(module, name).detach().clone()
    if not isinstance(first, Parameter):
        return value
    if not entries.is_tensor:
        return Parameter(value, first.requires_grad)
    first.data = value  # the object stays, so optimizers keep hold of it
    return first
