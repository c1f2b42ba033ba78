"""Where a function finds what it uses: closure cells, globals, attributes, entries of containers.

`Walk` goes through everything that a function can see, once. What a trace then turns out to use has a `Found`, the way
by which it is read again before each run (`readers`).
"""

import dis
import functools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from operator import is_not
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple

import numpy as np

from lucid.api.rng import Generator
from lucid.core.dtypes import dtype as Dtype
from lucid.core.fields import users_attributes
from lucid.core.storage import View
from lucid.core.tensor import Tensor
from lucid.kinds.kind import Kind

_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    NoneType,
    np.generic,
    np.dtype,
    Dtype,
    range,
    slice,
    type(Ellipsis),
    Enum,
)
_OF_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
_STORES = {
    "STORE_DEREF": "cell", "DELETE_DEREF": "cell", "STORE_GLOBAL": "global", "DELETE_GLOBAL": "global",
    "STORE_ATTR": "attribute", "DELETE_ATTR": "attribute",
}  # fmt: skip
_LONG = 64  # entries of plain values in one container that have a place each; longer ones are compared as a whole
_LONGEST = 1 << 14  # entries of one that is; of those above it, only the number is looked at
_MOST = 200_000  # places that are looked at; a thousand modules in training have a fifth of that
_OWN = frozenset({"lucid", "numpy", "sorix", "builtins", *sys.stdlib_module_names})
_MOST_BYTES = 1 << 20  # of an array of NumPy that are looked at before each run
MISSING = object()


class TooManyError(RuntimeError):
    """A function reaches more than can be looked at before each run."""


class Found:
    """A place: the one that it is reached from, how, and what was there when it was traced."""

    __slots__ = ("how", "key", "parent", "value")

    def __init__(self, parent: "Found | None", how: str, key: Any, value: Any) -> None:
        self.parent = parent
        self.how = how  # "root", "argument", "cell", "global", "attribute", "slot", "item", "grad" or "base"
        self.key = key
        self.value = value

    def read(self) -> Any:
        """What is there now; MISSING if the way there is gone."""
        if self.parent is None:
            return self.value  # of an argument, that of the traced call
        above = self.parent.read()
        if above is MISSING:
            return MISSING
        try:
            return STEPS[self.how](above, self.key.read() if isinstance(self.key, Found) else self.key)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return MISSING

    def __str__(self) -> str:
        key = self.key
        if self.parent is None:
            return f"the tensor argument {key}" if self.how == "argument" else str(key)
        if self.how in ("cell", "global"):
            return str(key)
        if self.how == "item":
            return f"{self.parent}[{key if isinstance(key, Found) else repr(key)}]"
        if self.how == "base":
            return f"what {self.parent} is a view of"
        return f"{self.parent}.{'grad' if self.how == 'grad' else key}"


def _in_cell(function: Any, name: str) -> Any:
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "cell": _in_cell,
    "global": lambda function, name: function.__globals__[name],
    "attribute": lambda owner, name: owner.__dict__[name],
    "slot": getattr,
    "item": lambda container, key: container[key],
    "grad": lambda tensor, _: tensor._grad,
    "base": lambda tensor, _: tensor._meta.base,
}


_COMPILED = "cython_function_or_method"  # the type of functions of compiled modules, whose closures nobody sees


VARIABLES = ("cell", "global", "attribute", "slot")


class Variable(NamedTuple):
    """What code may assign that is no entry of a container: how it is reached from where, and what was there."""

    owner: Found
    how: str  # one of VARIABLES
    key: str
    before: Any

    def now(self) -> Any:
        try:
            return STEPS[self.how](self.owner.value, self.key)
        except (AttributeError, KeyError, ValueError):
            return MISSING


class Walk:
    """All tensors, plain values and containers that can be reached from some roots."""

    def __init__(self, roots: Sequence[Found]) -> None:
        self.names: set[str] = set()  # that code which can be reached uses: attributes of others are not looked at
        self._stored: set[tuple[str, str]] = set()  # what it assigns
        while True:
            known = len(self.names)
            self.tensors: dict[int, list[Found]] = {}
            self.plain: list[Found] = []
            self.same: list[Found] = []  # must be the same object
            self.kinds: list[Found] = []  # must be of the same type, and have as many entries
            self.twice: list[tuple[Found, Found]] = []  # places with the same container
            self.containers: dict[int, Found] = {}
            self.compared: list[Found] = []  # must have the same entries
            self.arrays: list[tuple[Found, bytes]] = []  # must have the same elements
            self.groups: list[Any] = []  # of optimizers, whose options are read anew
            self._hooked: set[int] = set()
            self._frontier = deque(roots)
            for _ in range(_MOST):
                if not self._frontier:
                    break
                self._visit(self._frontier.popleft())
            else:
                self._raise_too_many()
            if len(self.names) == known:
                break
        self.contents = [(found, _contents(found.value)) for found in self.containers.values()]
        first = [places[0] for places in self.tensors.values()]
        self.contents += [(f, dict(own)) for f in first if (own := users_attributes(f.value))]
        # By what it is that is assigned: functions share globals and closures.
        self.variables = list({key: v for f in self.containers.values() for key, v in self._variables(f)}.values())

    def _variables(self, found: Found) -> Iterator[tuple[Any, Variable]]:
        """What code that was reached may assign there."""
        value = found.value
        if isinstance(value, FunctionType):
            if not _is_users(value):
                return
            stored = _uses(value.__code__).stored
            cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
            named: list[tuple[Any, str, str]] = [
                (id(cells[n]), how, n) for how, n in stored if how == "cell" and n in cells
            ]
            named += [((id(value.__globals__), n), how, n) for how, n in stored if how == "global"]
        elif isinstance(value, (type, ModuleType)):
            if is_own(value.__module__ if isinstance(value, type) else value.__name__):
                return
            named = [((id(value), n), how, n) for how, n in self._stored if how == "attribute"]
        else:
            slots = {n for cls in type(value).__mro__ if not is_own(cls.__module__) for n in _slots(cls)}
            named = [((id(value), n), "slot", n) for how, n in self._stored if how == "attribute" and n in slots]
        for key, how, name in named:
            variable = Variable(found, how, name, None)
            yield key, variable._replace(before=variable.now())

    def _raise_too_many(self) -> None:
        """Name the way by which most of what is still to be looked at is reached."""

        def beginning(found: Found) -> str:
            way = [found]
            while way[-1].parent is not None:
                way.append(way[-1].parent)
            return str(way[-4:][0])

        ((where, _),) = Counter(map(beginning, self._frontier)).most_common(1)
        raise TooManyError(f"it reaches more than {_MOST:,} objects, most of them by way of {where}")

    def _go_on(self, parent: Found, how: str, key: Any, value: Any) -> None:
        self._frontier.append(Found(parent, how, key, value))

    def _visit(self, found: Found) -> None:
        value = found.value
        if isinstance(value, Tensor):
            self._visit_tensor(found)
        elif isinstance(value, _PLAIN):
            self.plain.append(found)
        elif id(value) in self.containers:
            self.twice.append((found, self.containers[id(value)]))
        elif isinstance(value, type):
            self._visit_class(found)
        elif isinstance(value, ModuleType):
            self._visit_module(found)
        elif isinstance(value, (BuiltinFunctionType, np.ufunc, np.ndarray, Generator)):
            self.same.append(found)
            if isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
                self.arrays.append((found, value.tobytes()))
        else:
            self.containers[id(value)] = found
            self._visit_container(found, value)

    def _visit_tensor(self, found: Found) -> None:
        tensor: Any = found.value
        first = id(tensor) not in self.tensors
        self.tensors.setdefault(id(tensor), []).append(found)
        if not first or isinstance(tensor, Kind):
            return
        if tensor._level:  # made of others, as sparse tensors are
            self._go_on(found, "slot", "_array", tensor._array)
            self._go_on(found, "slot", "_aux", tensor._aux)
            return
        for name, item in (users_attributes(tensor) or {}).items():
            if name in self.names:
                self._go_on(found, "slot", name, item)
        if tensor._grad is not None:
            self._go_on(found, "grad", None, tensor._grad)
        if isinstance(tensor._meta, View) and tensor._meta.base is not None:
            self._go_on(found, "base", None, tensor._meta.base)

    def _visit_container(self, found: Found, value: Any) -> None:
        if isinstance(value, dict):
            self.kinds.append(found)
            for key, item in list(value.items()):
                self._go_on(found, "item", self._key(key), item)
        elif isinstance(value, (set, frozenset)):
            self.kinds.append(found)
            self.compared += [found] if len(value) <= _LONGEST else []
        elif isinstance(value, (list, tuple, deque)):
            self.kinds.append(found)
            if len(value) <= _LONG or any(not isinstance(v, _PLAIN) for v in value):
                for i, item in enumerate(value):
                    self._go_on(found, "item", i, item)
            else:
                self.same.append(found)
                self.compared += [found] if len(value) <= _LONGEST else []
        elif isinstance(value, FunctionType):
            self._visit_function(found, value)
        elif isinstance(value, MethodType):
            self._go_on(found, "slot", "__self__", value.__self__)
            self._go_on(found, "slot", "__func__", value.__func__)
        elif isinstance(value, functools.partial):
            for name in ("func", "args", "keywords"):
                self._go_on(found, "slot", name, getattr(value, name))
        elif type(value).__name__ == _COMPILED and hasattr(value, "__wrapped__"):  # as transforms give
            self.same.append(found)
            self._go_on(found, "slot", "__wrapped__", value.__wrapped__)
        else:
            self._visit_object(found, value)

    def _key(self, key: Any) -> Any:
        """How to find an entry again: entries of tensors, as in the state of optimizers, go with the tensor."""
        return self.tensors[id(key)][0] if isinstance(key, Tensor) and id(key) in self.tensors else key

    def _visit_function(self, found: Found, function: FunctionType) -> None:
        self.same.append(found)
        if hasattr(function, "runs_apart"):  # `compiler.disable`
            return
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._go_on(found, "cell", name, cell.cell_contents)
            except ValueError:  # not filled yet
                continue
        if not _is_users(function):
            return
        self.names.update(_names(code))
        uses = _uses(code)
        self._stored.update(uses.stored)
        for name, item in vars(function).items():
            if name in self.names:
                self._go_on(found, "attribute", name, item)
        for name in uses.globals:
            if name in function.__globals__:
                self._go_on(found, "global", name, function.__globals__[name])
        for i, default in enumerate(function.__defaults__ or ()):
            self._go_on(Found(found, "slot", "__defaults__", function.__defaults__), "item", i, default)
        for name, default in (function.__kwdefaults__ or {}).items():
            self._go_on(Found(found, "slot", "__kwdefaults__", function.__kwdefaults__), "item", name, default)

    def _visit_class(self, found: Found) -> None:
        cls = found.value
        if is_own(cls.__module__) or id(cls) in self.containers:
            return
        self.containers[id(cls)] = found
        self.same.append(found)
        self._look_into_class(cls)

    def _look_into_class(self, cls: Any) -> None:
        for base in cls.__mro__:
            if is_own(base.__module__):
                continue
            root = Found(None, "root", base.__qualname__, base)
            self.containers.setdefault(id(base), root)
            for name, value in list(vars(base).items()):
                if name in ("__init__", "__new__"):  # which have run
                    continue
                for code in _codes(value):
                    self.names.update(_names(code))
                    self._stored.update(_uses(code).stored)
                    function = value if isinstance(value, FunctionType) else None
                    if function is not None and id(function) not in self.containers:
                        self._go_on(root, "attribute", name, function)
                if name in self.names and isinstance(value, (Tensor, *_PLAIN)):
                    self._go_on(root, "attribute", name, value)

    def _visit_module(self, found: Found) -> None:
        """Of the user's own modules, what code names."""
        module = found.value
        if is_own(module.__name__):
            return
        self.containers[id(module)] = found
        for name in self.names & set(vars(module)):
            self._go_on(found, "attribute", name, vars(module)[name])

    def _visit_object(self, found: Found, value: Any) -> None:
        cls = type(value)
        rooms = getattr(cls, "compiled_attributes", None)  # a class that says which of its attributes matter
        apart = hasattr(cls, "runs_apart")  # its methods are called after runs, and see what is there then
        if rooms is not None:
            self.same.append(found)
        else:
            self.kinds.append(found)
        if cls not in (object, NoneType) and id(cls) not in self.containers and not apart:
            self.containers[id(cls)] = Found(None, "root", cls.__qualname__, cls)
            self._look_into_class(cls)
        registered = getattr(value, "_kinds", None) or ()
        own = is_own(cls.__module__)
        for name, item in list(getattr(value, "__dict__", {}).items()):
            if rooms is not None:
                if name not in rooms and ((own and not apart) or name not in self.names):
                    continue
            elif name == "_kinds" or not (own or name in self.names or name in registered):
                continue
            if rooms is not None and isinstance(item, list) and name == "param_groups":
                self._visit_groups(Found(found, "attribute", name, item))
                continue
            self._go_on(found, "attribute", name, item)
        if rooms is None:
            self._visit_defaults(found, value, own)
        for base in cls.__mro__:
            if "_hooks" in vars(base) and id(base) not in self._hooked:  # hooks on all modules
                self._hooked.add(id(base))
                self._go_on(Found(None, "root", base.__qualname__, base), "slot", "_hooks", vars(base)["_hooks"])

    def _visit_defaults(self, found: Found, value: Any, own: bool) -> None:
        """What an object has of its class, or in slots: it may get its own."""
        fields = getattr(value, "__dict__", {})
        for cls in type(value).__mro__:
            for name in _slots(cls):
                if name in self.names and hasattr(value, name):
                    self._go_on(found, "slot", name, getattr(value, name))
            for name, item in list(vars(cls).items()):
                if name in fields or name.startswith("__") or not isinstance(item, _PLAIN):
                    continue
                if name in self.names or (own and is_own(cls.__module__)):
                    self._go_on(found, "slot", name, getattr(value, name))

    def _visit_groups(self, found: Found) -> None:
        """The groups of an optimizer: parameters and options; numbers that are read for each run are no guards."""
        self.containers[id(found.value)] = found
        self.kinds.append(found)
        optimizer = found.parent.value if found.parent is not None else None
        self.groups += [g for g in found.value if hasattr(type(g), "watched")]
        for i, group in enumerate(found.value):
            place = Found(found, "item", i, group)
            self.containers[id(group)] = place
            self.kinds.append(place)
            for name, option in group.items():
                read_anew = name in ("lr", "initial_lr") or getattr(optimizer, "reads_numbers", False)
                read_anew = read_anew and (hasattr(type(group), "watched") or name not in self.names)
                if (
                    name == "params"
                    or isinstance(option, Tensor)
                    or not read_anew
                    or type(option) in (str, NoneType, bool)
                ):
                    self._go_on(place, "item", name, option)


def _contents(value: Any) -> Any:
    """A copy of the first level of a container, by which changes are noticed; None for what cannot change."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, deque, set)):
        return list(value)
    if isinstance(value, (type, ModuleType, MethodType, tuple, functools.partial)):
        return None
    if isinstance(value, FunctionType) and not _is_users(value):
        return None
    return dict(value.__dict__) if hasattr(value, "__dict__") else None


def assign(owner: Any, how: str, key: str, value: Any) -> None:
    """Give a variable a value; MISSING for none."""
    if how == "cell":
        cell = owner.__closure__[owner.__code__.co_freevars.index(key)]
        if value is MISSING:
            del cell.cell_contents
        else:
            cell.cell_contents = value
    elif how == "global":
        if value is MISSING:
            del owner.__globals__[key]
        else:
            owner.__globals__[key] = value
    elif value is MISSING:
        delattr(owner, key)
    else:
        setattr(owner, key, value)


def is_own(module: Any) -> bool:
    """Whether code is of a library that changes nothing between calls."""
    return isinstance(module, str) and module.partition(".")[0] in _OWN and module != "builtins.__main__"


def _slots(cls: type) -> Sequence[str]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _codes(value: Any) -> Iterator[CodeType]:
    """The code of a function, however it is wrapped in a class."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    for item in (value.fget, value.fset) if isinstance(value, property) else (value,):
        code = getattr(item, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _names(code: CodeType) -> Iterator[str]:
    """The names that code uses, and those in strings, by which `getattr` may look."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


class _Uses(NamedTuple):
    """Names that code looks up among globals, and those that it assigns: closure variables, globals, attributes."""

    globals: tuple[str, ...]
    stored: frozenset[tuple[str, str]]


@functools.lru_cache(maxsize=1024)
def _uses(code: CodeType) -> _Uses:
    found: list[str] = []
    stored: set[tuple[str, str]] = set()
    for i in dis.get_instructions(code):
        # What is no name was put there by tools that rewrite code, as pytest does with asserts.
        if i.opname in _OF_GLOBALS and i.argval.isidentifier():
            found.append(i.argval)
        if i.opname in _STORES:
            stored.add((_STORES[i.opname], i.argval))
    if "globals" in code.co_names:  # they may be named by strings
        found = list(_names(code))
        stored.update(("global", name) for name in found)
    if "setattr" in code.co_names or "delattr" in code.co_names:
        stored.update(("attribute", name) for name in _names(code))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _uses(constant)
            found += inner.globals
            stored |= inner.stored
    return _Uses(tuple(dict.fromkeys(found)), frozenset(stored))


def _is_users(function: FunctionType) -> bool:
    """Whether a function is of the user's own code, which examples of modules are too."""
    return not is_own(function.__module__) or function.__code__.co_filename.startswith("<")


# --- what a function assigns -----------------------------------------------------------------------


def _fields(container: Any) -> Any:
    return container if isinstance(container, (dict, list, deque, set)) else container.__dict__


def changed(walk: Walk) -> Iterator[tuple[Found, str, Any, Any]]:
    """What has been assigned since the walk."""
    for found, before in walk.contents:
        if before is None or _is_closed(found.value):
            continue
        now = _fields(found.value)
        if isinstance(now, set):
            if now != set(before):
                yield found, "entries", None, list(now)
            continue
        if isinstance(now, (list, deque)):
            if len(now) != len(before) or (isinstance(now, deque) and any(map(is_not, now, before))):
                yield found, "entries", None, list(now)
                continue
            pairs: Any = enumerate(now)
            old: Any = dict(enumerate(before))
        else:
            pairs, old = list(now.items()), before
            for key in [k for k in old if k not in now]:
                yield found, "removed" if isinstance(found.value, dict) else "removed attribute", key, None
        how = "attribute" if now is not found.value else "item"
        for key, value in pairs:
            if value is not old.get(key, MISSING) and not _is_equal(value, old.get(key, MISSING)):
                yield found, how, key, value
    for variable in walk.variables:
        new = variable.now()
        if new is not variable.before and not _is_equal(new, variable.before):
            how = f"removed {variable.how}" if new is MISSING else variable.how
            yield variable.owner, how, variable.key, None if new is MISSING else new


def _is_closed(value: Any) -> bool:
    """Whether the attributes of an object are its own affair: only what it names is looked at."""
    kind = type(value)
    return hasattr(kind, "compiled_attributes") and not hasattr(kind, "runs_apart") and is_own(kind.__module__)


def _is_equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b


def writes_arrays(walk: Walk) -> bool:
    """Whether arrays of NumPy have other elements than at the time of the walk."""
    return any(found.value.tobytes() != before for found, before in walk.arrays)


def restore(walk: Walk) -> None:
    """Put back what has been assigned since the walk."""
    for found, elements in walk.arrays:
        array = found.value
        if array.tobytes() != elements:
            array[...] = np.frombuffer(elements, array.dtype).reshape(array.shape)
    for found, before in walk.contents:
        if before is None or _is_closed(found.value):
            continue
        now = _fields(found.value)
        if isinstance(now, (list, deque, set)):
            if len(now) != len(before) or any(map(is_not, now, before)):
                fill(now, before)
        elif len(now) != len(before) or any(now.get(k, MISSING) is not v for k, v in before.items()):
            now.clear()
            now.update(before)
    for variable in walk.variables:
        if variable.now() is not variable.before:
            assign(variable.owner.value, variable.how, variable.key, variable.before)


def fill(container: Any, entries: Sequence[Any]) -> None:
    """Give a list, deque or set other entries."""
    container.clear()
    if isinstance(container, set):
        container.update(entries)
    else:
        container.extend(entries)
