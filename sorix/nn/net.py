"""The base of modules and the containers: state is found by walking the attributes of instances."""

from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Self

import numpy as np

from sorix.tensor import Tensor

_NO_OBJECTS = (Tensor, np.ndarray, type, FunctionType, MethodType, BuiltinFunctionType, ModuleType)


def _add_indent(text: str, num_spaces: int) -> str:
    """The text with all lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * num_spaces)


def _attributes(obj: Any) -> dict[str, Any]:
    """The public attributes of an instance of a class of somebody's."""
    if not hasattr(obj, "__dict__") or isinstance(obj, _NO_OBJECTS):
        return {}
    return {name: value for name, value in vars(obj).items() if not name.startswith("_")}


def _inside(value: Any) -> list[Any]:
    """What is directly inside of a list, a dict or an object."""
    if isinstance(value, list | tuple | ModuleList):
        return list(value)
    return list(value.values() if isinstance(value, dict) else _attributes(value).values())


def _walk(root: Any, seen: set[int]) -> Iterator[Any]:
    """Everything below something, in the order of attributes, each thing once."""
    for value in _inside(root):
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            yield from _walk(value, seen)


class Module:
    """The base of modules: a class with `forward`, whose tensors are attributes.

    >>> import sorix
    >>> class Scale(sorix.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = sorix.tensor([2.0], requires_grad=True)
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> model = Scale()
    >>> model(sorix.tensor([3.0])), model.parameters(), model.state_dict()
    (tensor([6.], requires_grad=True), [tensor([2.], requires_grad=True)], {'factor': tensor([2.], requires_grad=True)})
    """

    def __init__(self) -> None:
        self.device, self.training = "cpu", True

    xp: Any = property(lambda self: np, doc="The module of its arrays.")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}: You must implement forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def parameters(self) -> list[Tensor]:
        """All tensors that require grad, in attributes, lists, dicts and objects of any depth, each once."""
        return [v for v in _walk(self, {id(self)}) if isinstance(v, Tensor) and v.requires_grad]

    def to(self, device: str) -> Self:
        """Move all tensors to a device, and note its name."""
        for value in [self, *_walk(self, {id(self)})]:
            if isinstance(value, Tensor):
                value.to(device)
            elif isinstance(value, Module):
                value.device = device
        return self

    def train(self) -> None:
        """Let the module and all below behave as in training."""
        self._set_training(True)

    def eval(self) -> None:
        """Let the module and all below behave as in evaluation."""
        self._set_training(False)

    def _set_training(self, mode: bool) -> None:
        self.training = mode
        for value in _walk(self, {id(self)}):
            if isinstance(value, Module):
                value.training = mode

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by name: those of attributes, of modules below, and one level into other objects."""
        found: dict[str, Tensor] = {}
        for name, value in _attributes(self).items():
            if isinstance(value, Tensor):
                found[name] = value
            elif hasattr(value, "state_dict"):
                found |= {f"{name}.{key}": held for key, held in value.state_dict().items()}
            else:
                inner = _attributes(value)
                found |= {f"{name}.{key}": held for key, held in inner.items() if isinstance(held, Tensor)}
        return found

    def load_state_dict(self, sd: dict[str, Any]) -> None:
        """Copy the tensors whose names are known here; what else is there or missing is passed over."""
        for name, held in self.state_dict().items():
            if isinstance(sd.get(name), Tensor):
                held.data = sd[name].data.astype(held.data.dtype)

    def extra_repr(self) -> str:
        """What the text of the module says beside its children."""
        return ""

    def _children(self) -> dict[str, Any]:
        return {name: value for name, value in _attributes(self).items() if isinstance(value, Module)}

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {_add_indent(repr(child), 2)}" for name, child in self._children().items()]
        if not children and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        lines = [*(extra.split("\n") if extra else []), *children]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


class Sequential(Module):
    """Modules one after the other, named by numbers or by a dict.

    >>> import sorix
    >>> model = sorix.nn.Sequential(sorix.nn.Linear(2, 3), sorix.nn.ReLU(), sorix.nn.Linear(3, 1))
    >>> list(model.state_dict()), model[1:]
    (['0.W', '0.b', '2.W', '2.b'], Sequential(
      (1): ReLU()
      (2): Linear(in_features=3, out_features=1, bias=True)
    ))
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = len(modules) == 1 and isinstance(modules[0], dict)
        for name, module in modules[0].items() if named else enumerate(modules):
            setattr(self, str(name), module)

    def _modules(self) -> dict[str, Any]:
        return {n: v for n, v in _attributes(self).items() if n not in ("device", "training")}

    def forward(self, x: Any) -> Any:
        """Pass a tensor through all modules."""
        for module in self._modules().values():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules().values())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._modules()[key]
        items = list(self._modules().items())
        return Sequential(dict(items[key])) if isinstance(key, slice) else items[key][1]


class ModuleList(Module):
    """Modules in a list, named by numbers.

    >>> import sorix
    >>> layers = sorix.nn.ModuleList([sorix.nn.ReLU()]).append(sorix.nn.Linear(2, 1))
    >>> len(layers), list(layers.state_dict()), layers[-1]
    (2, ['1.W', '1.b'], Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self._list: list[Any] = list(modules or ())

    def append(self, module: Any) -> Self:
        """Put a module at the end."""
        self._list.append(module)
        return self

    def extend(self, modules: Any) -> Self:
        """Put modules at the end."""
        self._list.extend(modules)
        return self

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list)

    def __getitem__(self, key: Any) -> Any:
        return ModuleList(self._list[key]) if isinstance(key, slice) else self._list[key]

    def _children(self) -> dict[str, Any]:
        return {str(i): module for i, module in enumerate(self._list)}

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors of the modules, by their numbers."""
        return {f"{i}.{k}": t for i, m in enumerate(self._list) for k, t in m.state_dict().items()}


__all__ = ["Module", "ModuleList", "Sequential"]
