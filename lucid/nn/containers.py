"""Modules that hold other modules or parameters, in lists and dictionaries."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from lucid import Tensor
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.nn.registry import MODULE, PARAMETER

_set = object.__setattr__  # for what is no entry

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Held(Module):
    """What containers have in common: entries registered as one kind."""

    _kind = MODULE

    def _entries(self) -> list[tuple[str, Any]]:
        return self._own(self._kind)

    def _checked(self, value: Any) -> Any:
        """A value in the form in which it is held, or an error; asked of all values before anything changes."""
        if value is not None and not isinstance(value, Module):
            raise TypeError(f"a {type(self).__name__} holds modules, not a {type(value).__name__}")
        return value

    def _add(self, name: str, value: Any) -> None:
        self._register(name, self._checked(value), self._kind)

    def _remove_all(self) -> None:
        for name, _ in self._entries():
            delattr(self, name)

    def __len__(self) -> int:
        return len(self._entries())


class _Listed(_Held):
    """Entries under the names "0", "1" and so on."""

    _order: list[str] | None = None  # the names of the entries, kept from one question to the next

    def __init__(self) -> None:
        super().__init__()
        _set(self, "_order", None)

    def _names(self) -> list[str]:
        names = self._order
        if names is None:
            names = [name for name, _ in self._entries()]
            _set(self, "_order", names)
        return names

    def _put(self, name: str, value: Any, kind: str) -> None:
        if self._order is not None and self._kinds.get(name) != kind:
            if kind == self._kind and name not in self._kinds:
                self._order.append(name)
            else:
                _set(self, "_order", None)
        super()._put(name, value, kind)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _set(self, "_order", None)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_order": None}

    def __len__(self) -> int:
        return len(self._names())

    def _copy(self, entries: list[tuple[str, Any]]) -> Self:
        return type(self)([value for _, value in entries])  # type: ignore[call-arg]  # each list takes an iterable

    def _renumber(self, values: list[Any]) -> None:
        self._remove_all()
        for i, value in enumerate(values):
            self._add(str(i), value)

    def _name_at(self, index: Any) -> str:
        names = self._names()
        number = operator.index(index)
        if not -len(names) <= number < len(names):
            raise IndexError(f"index {number} is out of range for a {type(self).__name__} of length {len(names)}")
        return names[number]

    def _values(self) -> list[Any]:
        return [value for _, value in self._entries()]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._copy(self._entries()[index])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._add(self._name_at(index), value)

    def __delitem__(self, index: Any) -> None:
        values = self._values()
        del values[index if isinstance(index, slice) else operator.index(index)]
        self._renumber(values)

    def append(self, module: Any) -> Self:
        """Add an entry at the end."""
        self._add(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add several entries at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend needs an iterable, not {type(modules).__name__}")
        for value in [self._checked(m) for m in modules]:
            self.append(value)
        return self

    def insert(self, index: int, module: Any) -> Any:
        """Add an entry before the one at `index`."""
        values = self._values()
        if not -len(values) <= index <= len(values):
            raise IndexError(f"insert: index {index} is out of range for a {type(self).__name__} of {len(values)}")
        values.insert(index, self._checked(module))
        self._renumber(values)

    def pop(self, index: int = -1) -> Any:
        """Take out the entry at `index`."""
        value = self[index]
        del self[index]
        return value

    def __iadd__(self, others: Iterable[Any]) -> Self:
        return self.extend(others)

    def __add__(self, others: Iterable[Any]) -> Self:
        if not isinstance(others, Iterable):
            return NotImplemented
        return self._copy([(str(i), value) for i, value in enumerate([*self, *others])])


class Sequential(_Listed):
    """Modules that run one after the other, each on the result of the one before.

    Takes the modules, or one ordered dictionary of them.

    >>> from lucid.nn.containers import Sequential
    >>> from lucid.nn.module import Module
    >>> class Double(Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> net = Sequential(Double(), Double())
    >>> net(3)
    12
    >>> net
    Sequential(
      (0): Double()
      (1): Double()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        given = args[0] if len(args) == 1 and isinstance(args[0], dict) else {str(i): m for i, m in enumerate(args)}
        for name, module in given.items():
            self._add(name, module)

    def forward(self, input: Any) -> Any:
        """Run the modules in order."""
        for name, kind in self._kinds.items():
            if kind == MODULE:
                input = getattr(self, name)(input)
        return input

    def _copy(self, entries: list[tuple[str, Any]]) -> Self:
        return type(self)(dict(entries))

    def __mul__(self, times: int) -> Self:
        return self._copy([(str(i), m) for i, m in enumerate(self._values() * _times(times))])

    __rmul__ = __mul__

    def insert(self, index: int, module: Any) -> Self:
        """Add a module before the one at `index`; gives the container, as `append` does."""
        super().insert(index, module)
        return self

    def __imul__(self, times: int) -> Self:
        return self.extend(self._values() * (_times(times) - 1))


def _times(times: Any) -> int:
    if not isinstance(times, int):
        raise TypeError(f"a Sequential can be multiplied by a whole number, not by a {type(times).__name__}")
    if times <= 0:
        raise ValueError(f"a Sequential can be repeated once or more often, not {times} times")
    return times


class ModuleList(_Listed):
    """A list of modules that are registered.

    >>> from lucid.nn.containers import ModuleList
    >>> from lucid.nn.module import Module
    >>> layers = ModuleList([Module(), Module()])
    >>> layers.append(Module())
    ModuleList(
      (0-2): 3 x Module()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _written(self) -> str:
        """Runs of entries that print alike are printed once."""
        runs: list[list[Any]] = []
        for i, module in enumerate(self._values()):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            (f"({start}): {text}" if start == end else f"({start}-{end}): {end - start + 1} x {text}")
            for start, end, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n".join(lines).replace("\n", "\n  ") + "\n)"


class _OfParameters(_Held):
    """Entries that are parameters."""

    _kind = PARAMETER

    def _checked(self, value: Any) -> Any:
        if value is None or isinstance(value, Parameter):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(f"containers of parameters hold tensors, not {type(value).__name__}")
        return Parameter(value)

    def extra_repr(self) -> str:
        """The types and sizes of the parameters."""
        return "\n".join(f"  ({name}): {_described(value)}" for name, value in self._entries())


def _described(parameter: Parameter | None) -> str:
    if parameter is None:
        return "None"
    return f"Parameter containing: [{parameter.dtype} of size {'x'.join(map(str, parameter.shape))}]"


class ParameterList(_OfParameters, _Listed):
    """A list of parameters that are registered; other tensors that are put in become parameters.

    >>> import lucid
    >>> from lucid.nn.containers import ParameterList
    >>> weights = ParameterList([lucid.zeros(2), lucid.zeros(3)])
    >>> [p.shape for p in weights.parameters()]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None, *, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for given in (values, parameters):
            if given is not None:
                self.extend(given)


class _Mapped(_Held):
    """Entries under names of their own."""

    def __getitem__(self, key: str) -> Any:
        if self._kinds.get(key) != self._kind:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._add(key, value)

    def __delitem__(self, key: str) -> None:
        self[key]  # a KeyError if it is not there
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._entries()])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._kinds.get(key) == self._kind

    def clear(self) -> None:
        """Remove all entries."""
        self._remove_all()

    def pop(self, key: str) -> Any:
        """Remove an entry and return it."""
        value = self[key]
        del self[key]
        return value

    def keys(self) -> Iterable[str]:
        """The names."""
        return dict(self._entries()).keys()

    def values(self) -> Iterable[Any]:
        """The entries."""
        return dict(self._entries()).values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of names and entries."""
        return dict(self._entries()).items()

    def _in_order(self, given: Any) -> list[Any]:
        """The entries of a mapping in the order in which they are registered."""
        return list(given.items())

    def update(self, modules: Any) -> None:
        """Add entries from a mapping or an iterable of pairs, in place of those of the same names."""
        if not isinstance(modules, (Mapping, _Mapped)) and not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.update needs a mapping or pairs, not {type(modules).__name__}")
        pairs = self._in_order(modules) if isinstance(modules, (Mapping, _Mapped)) else list(modules)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"{type(self).__name__}.update: element {i} is {pair!r}, not a pair of name and value")
        for name, value in [(name, self._checked(value)) for name, value in pairs]:
            self[name] = value


class ModuleDict(_Mapped):
    """A dictionary of modules that are registered.

    >>> from lucid.nn.containers import ModuleDict
    >>> from lucid.nn.module import Module
    >>> heads = ModuleDict({"left": Module(), "right": Module()})
    >>> list(heads.keys()), "left" in heads
    (['left', 'right'], True)
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)


class ParameterDict(_OfParameters, _Mapped):
    """A dictionary of parameters that are registered; other tensors that are put in become parameters.

    >>> import lucid
    >>> from lucid.nn.containers import ParameterDict
    >>> weights = ParameterDict({"left": lucid.zeros(2)})
    >>> weights["left"]
    Parameter containing:
    Tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def _in_order(self, given: Any) -> list[Any]:
        """By name, unless the mapping is one whose order counts: as in PyTorch, where states of optimizers follow it."""
        pairs = super()._in_order(given)
        return pairs if isinstance(given, (OrderedDict, ParameterDict)) else sorted(pairs, key=operator.itemgetter(0))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The entry under `key`, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The entry under `key`, or `default`."""
        return dict(self._entries()).get(key, default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return it with its name."""
        if not len(self):
            raise KeyError("the ParameterDict is empty")
        name, value = self._entries()[-1]
        del self[name]
        return name, value

    def copy(self) -> "ParameterDict":
        """A dictionary of the same parameters."""
        return ParameterDict(self)

    @staticmethod
    def fromkeys(keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A dictionary with these names, each for the same entry."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, other: Any) -> "ParameterDict":
        return self.copy().__ior__(other)

    def __ror__(self, other: Any) -> "ParameterDict":
        return ParameterDict(other).__ior__(self)

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self
