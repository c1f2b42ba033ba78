"""Where a function finds what it uses: closure cells, globals, attributes, entries of containers.

`Walk` goes through everything that a function can see, once. What a trace then turns out to use has a `Found`, the way
by which it is read again before each run; `reader` turns a list of such ways, and of values that must be what they
were (*guards*), into one Python function without loops.
"""

import dis
import functools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np

from lucid.api.rng import Generator
from lucid.core.dtypes import dtype as Dtype
from lucid.core.fields import users_attributes
from lucid.core.kind import Kind
from lucid.core.storage import View
from lucid.core.tensor import Tensor
from lucid.ir import changes

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
_LONG = (
    64  # entries of plain values in one container that are looked at before each run; of longer ones only the number
)
_MOST = 200_000  # places that are looked at; a thousand modules in training have a fifth of that
_OWN = frozenset({"lucid", "numpy", "sorix", "builtins", *sys.stdlib_module_names})
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
            return _STEPS[self.how](above, self.key.read() if isinstance(self.key, Found) else self.key)
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


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "cell": _in_cell,
    "global": lambda function, name: function.__globals__[name],
    "attribute": lambda owner, name: owner.__dict__[name],
    "slot": getattr,
    "item": lambda container, key: container[key],
    "grad": lambda tensor, _: tensor._grad,
    "base": lambda tensor, _: tensor._meta.base,
}


_COMPILED = "cython_function_or_method"  # the type of functions of compiled modules, whose closures nobody sees


class Walk:
    """All tensors, plain values and containers that can be reached from some roots."""

    def __init__(self, roots: Sequence[Found]) -> None:
        self.names: set[str] = set()  # that code which can be reached uses: attributes of others are not looked at
        while True:
            known = len(self.names)
            self.tensors: dict[int, list[Found]] = {}
            self.plain: list[Found] = []
            self.same: list[Found] = []  # must be the same object
            self.kinds: list[Found] = []  # must be of the same type, and have as many entries
            self.twice: list[tuple[Found, Found]] = []  # places with the same container
            self.containers: dict[int, Found] = {}
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
        elif isinstance(value, BuiltinFunctionType | np.ufunc | np.ndarray | Generator):
            self.same.append(found)
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
        elif isinstance(value, list | tuple):
            self.kinds.append(found)
            if len(value) <= _LONG or any(not isinstance(v, _PLAIN) for v in value):
                for i, item in enumerate(value):
                    self._go_on(found, "item", i, item)
            else:
                self.same.append(found)
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
        if is_own(function.__module__) and not code.co_filename.startswith("<"):  # which examples of modules are
            return
        self.names.update(_names(code))
        for name in _globals(code):
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
    if isinstance(value, list):
        return list(value)
    if isinstance(value, type | ModuleType | FunctionType | MethodType | tuple | functools.partial):
        return None
    return dict(value.__dict__) if hasattr(value, "__dict__") else None


def is_own(module: Any) -> bool:
    """Whether code is of a library that changes nothing between calls."""
    return isinstance(module, str) and module.partition(".")[0] in _OWN and module != "builtins.__main__"


def _slots(cls: type) -> Sequence[str]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _codes(value: Any) -> Iterator[CodeType]:
    """The code of a function, however it is wrapped in a class."""
    if isinstance(value, staticmethod | classmethod):
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


@functools.lru_cache(maxsize=1024)
def _globals(code: CodeType) -> tuple[str, ...]:
    """The names that code looks up among globals, also as strings where it asks for all of them."""
    if "globals" in code.co_names:
        return tuple(dict.fromkeys(_names(code)))
    found = [str(i.argval) for i in dis.get_instructions(code) if i.opname in _OF_GLOBALS]
    # What is no name was put there by tools that rewrite code, as pytest does with asserts.
    found = [name for name in found if name.isidentifier()]
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _globals(constant)]
    return tuple(dict.fromkeys([*found, *inner]))


class Guard:
    """A condition under which a program serves, and how to say that it does not hold."""

    __slots__ = ("expected", "kind", "other", "place")

    def __init__(self, kind: str, place: Found, expected: Any, other: Found | None = None) -> None:
        self.kind = kind
        self.place = place
        self.expected = expected
        self.other = other

    def holds(self) -> bool:
        now = self.place.read()
        if self.kind == "plain":
            return now is self.expected or (type(now) is type(self.expected) and bool(now == self.expected))
        if self.kind == "same":
            return now is self.expected
        if self.kind == "alias":
            return self.other is not None and now is self.other.read()
        if self.kind == "type":
            return type(now) is self.expected
        if self.kind == "length":
            return now is not MISSING and len(now) == self.expected
        if self.kind == "none":
            return now is None
        return isinstance(now, Tensor) and facts(now) == self.expected

    def __str__(self) -> str:
        now = self.place.read()
        if now is MISSING:
            return f"{self.place} is gone"
        if self.kind == "plain":
            return f"{self.place} was {self.expected!r}, now {now!r}"
        if self.kind == "same":
            return f"{self.place} is another object"
        if self.kind == "alias":
            return f"{self.place} and {self.other} are not the same object any more"
        if self.kind == "type":
            return f"{self.place} was a {self.expected.__name__}, now a {type(now).__name__}"
        if self.kind == "length":
            return f"{self.place} had {self.expected} entries, now {len(now)}"
        if self.kind == "none":
            return f"{self.place} was None, now it is there"
        if not isinstance(now, Tensor):
            return f"{self.place} was a tensor, now {now!r}"
        return f"{self.place} was {described(self.expected)}, now {described(facts(now))}"


def facts(tensor: Tensor) -> tuple[Any, ...]:
    """What a program depends on of a tensor: class, shape, type, whether it requires grad, and strides unless row-major."""
    if isinstance(tensor, Kind):
        return (type(tensor),)
    array = tensor._array
    return (
        type(tensor),
        array.shape,
        array.dtype,
        tensor.requires_grad,
        None if array.flags.c_contiguous else array.strides,
    )


def described(found: tuple[Any, ...]) -> str:
    """The same in words."""
    if len(found) < 5:
        return f"a {found[0].__name__}"
    _, shape, dtype, requires_grad, strides = found
    return f"{dtype}{list(shape)}{' that requires grad' * requires_grad}{' in another order than row-major' * bool(strides)}"


class Reader:
    """Reads places, after it has checked guards, by generated code.

    Tensors are mostly the same ones as in the last run, over the same memory: then nothing else is looked at. What
    hangs on attributes of modules alone is the same as long as nobody has assigned to one, which is counted.
    """

    def __init__(self, tensors: Sequence[Found], others: Sequence[Found], guards: Sequence[Guard]) -> None:
        self.guards = list(guards)
        self.expected = [facts(found.value) for found in tensors]
        self.places = list(tensors)
        self._others = list(others)
        self.version = 0  # counts how often a tensor was another one than before
        self._last: list[Any] = [None] * len(tensors)
        self._arrays: list[Any] = [None] * len(tensors)
        self._kept: list[Any] = []
        self._read = _Code(self, tensors, others, self._kept, False).function
        quick = _Code(self, tensors, others, self._kept, True)
        self._read_quickly, self._notes = quick.function, quick.kept
        self._count = -1  # of assignments to modules when everything was read

    def __call__(self, arguments: Sequence[Tensor]) -> Any:
        """The tensors and the others, for the tensors among the arguments; or what `why` explains, if it does not serve."""
        try:
            if self._count == changes.count[0]:
                found = self._read_quickly(arguments)
                if found is not None:
                    return found
            count = changes.count[0]
            found = self._read(arguments)
            self._count = -1
            if type(found) is tuple:
                self._kept[:] = [place.read() for place in self._notes]
                self._count = count
            return found
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return None

    def release(self) -> None:
        """Forget what was found at the places, which are read anew."""
        founds = [*self.places, *self._others, *[p for g in self.guards for p in (g.place, g.other) if p is not None]]
        while founds:
            found = founds.pop()
            if found.parent is not None:
                found.value = None
                founds.append(found.parent)
                if isinstance(found.key, Found):
                    founds.append(found.key)

    def why(self, failed: int | None) -> str:
        """What has changed, in words."""
        if failed is not None and failed < 0:
            found = self.places[-1 - failed]
            return str(Guard("tensor", found, self.expected[-1 - failed]))
        if failed is not None:
            return str(self.guards[failed])
        gone = next((f for f in self.places if f.read() is MISSING), None)
        broken = next((g for g in self.guards if not g.holds()), None)
        return f"{gone} is gone" if gone is not None else str(broken or "something that the function reads is gone")

    def _fits(self, i: int, tensor: Any) -> bool:
        if not isinstance(tensor, Tensor) or facts(tensor) != self.expected[i]:
            return False
        self._last[i], self._arrays[i] = tensor, tensor._array
        self.version += 1
        return True


class _Code:
    """The text of a function that reads places, and the values in it. The quick one takes what hangs on modules as `kept`."""

    def __init__(
        self, reader: Reader, tensors: Sequence[Found], others: Sequence[Found], kept: list[Any], quick: bool
    ) -> None:
        self.quick = quick
        self.kept: list[Found] = []
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {
            "last": reader._last, "arrays": reader._arrays, "fits": reader._fits, "kept": kept
        }  # fmt: skip
        self._variables: dict[Any, str] = {}
        failed = "None" if quick else None  # the slow one says what has changed
        for number, guard in enumerate(reader.guards):
            if not quick or not self._is_kept(guard):
                self._lines.append(f"    if {self._condition(guard)}: return {failed or number}")
        for i, found in enumerate(tensors):
            v = self._variable(found)
            if quick and v.startswith("kept"):
                self._lines.append(f"    v{i}k = {v}")
                v = self._variables[_key(found)] = f"v{i}k"
            grad = bool(reader.expected[i][3])
            self._lines.append(
                f"    if ({v} is not last[{i}] or {v}._array is not arrays[{i}] or {v}._requires_grad is not {grad}) "
                f"and not fits({i}, {v}): return {failed or -1 - i}"
            )
        results = [", ".join([self._variable(f) for f in group]) for group in (tensors, others)]
        source = "\n".join(["def read(arguments):", *self._lines, f"    return [{results[0]}], [{results[1]}]"])
        exec(compile(source, "<lucid.compile: captures>", "exec"), self._constants)
        self.function: Callable[[Sequence[Tensor]], Any] = self._constants["read"]

    def _kept(self, found: Found) -> str:
        """A place that hangs on modules, as the value that it had when everything was read; its module must be the same."""
        top = _top(found)
        if top.parent is not None and top not in self.kept:
            v = self._variable(top)
            self.kept.append(top)
            self._lines.append(f"    if {v} is not kept[{len(self.kept) - 1}]: return None")
        self.kept.append(found)
        return f"kept[{len(self.kept) - 1}]"

    def _is_kept(self, guard: Guard) -> bool:
        """Whether a guard holds as long as modules have the same attributes."""
        places = [guard.place] if guard.other is None else [guard.place, guard.other]
        return guard.kind != "length" and all(_hangs_on_modules(p) for p in places)

    def _constant(self, value: Any) -> str:
        if value is None or value is True or value is False or type(value) is int:
            return repr(value)
        return self._named(value)

    def _named(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _condition(self, guard: Guard) -> str:
        v, expected = self._variable(guard.place), guard.expected
        if guard.kind == "alias":
            assert guard.other is not None
            return f"{v} is not {self._variable(guard.other)}"
        if guard.kind == "length":
            return f"len({v}) != {expected}"
        if guard.kind == "type":
            return f"type({v}) is not {self._constant(expected)}"
        if expected is None or type(expected) is bool:
            return f"{v} is not {expected}"
        c = self._named(expected)
        if guard.kind == "same":
            return f"{v} is not {c}"
        return f"{v} is not {c} and (type({v}) is not type({c}) or {v} != {c})"

    def _variable(self, found: Found) -> str:
        """The variable with what is at a place, read when it is first needed."""
        key = _key(found)
        if key in self._variables:
            return self._variables[key]
        if found.how == "argument":
            name = f"arguments[{found.key}]"
        elif found.parent is None:
            name = self._named(found.value)
        elif self.quick and _hangs_on_modules(found):
            name = self._kept(found)
        else:
            above = self._variable(found.parent)
            how = found.how
            if how == "cell":
                cells = found.parent.value.__closure__
                cell = cells[found.parent.value.__code__.co_freevars.index(found.key)]
                text = f"{self._constant(cell)}.cell_contents"
            elif how == "global":
                text = f"{self._constant(found.parent.value.__globals__)}[{found.key!r}]"
            elif how == "attribute":
                text = f"{self._fields(found.parent, above)}[{found.key!r}]"
            elif how == "slot":
                text = f"{above}.{found.key}"
            elif how == "item":
                inner = self._variable(found.key) if isinstance(found.key, Found) else self._constant(found.key)
                text = f"{above}[{inner}]"
            else:
                text = f"{above}._grad" if how == "grad" else f"{above}._meta.base"
            name = f"v{len(self._variables)}"
            self._lines.append(f"    {name} = {text}")
        self._variables[key] = name
        return name

    def _fields(self, owner: Found, variable: str) -> str:
        """The variable with the attributes of an object."""
        key = (id(owner), "fields")
        if key not in self._variables:
            self._variables[key] = name = f"d{len(self._variables)}"
            self._lines.append(f"    {name} = {variable}.__dict__")
        return self._variables[key]


def _key(found: Found) -> Any:
    if found.parent is None:
        return id(found.value)
    return id(found.parent), found.how, _hashable(found.key)


def _hangs_on_modules(found: Found) -> bool:
    """Whether a place is an attribute of a module."""
    counted = found.parent is not None and hasattr(type(found.parent.value), "counts_changes")
    return counted and found.how in ("attribute", "slot")


def _top(found: Found) -> Found:
    """The module from which a place is reached by attributes of modules."""
    while found.parent is not None and _hangs_on_modules(found):
        found = found.parent
    return found


def _hashable(key: Any) -> Any:
    return id(key) if isinstance(key, Found) else (type(key), key)
