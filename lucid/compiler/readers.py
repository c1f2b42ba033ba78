"""Reading before each run what a program needs: tensors at the places where they were found, and values that must be what they were.

A `Guard` is such a value. `Reader` turns lists of places and guards into Python code.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lucid.compiler.places import MISSING, STEPS, Found, Variable
from lucid.core.tensor import Tensor
from lucid.ir import changes
from lucid.kinds.kind import Kind

# What guards compare of objects that can change.
READS: dict[str, Callable[[Any], Any]] = {"entries": lambda found: found, "elements": lambda array: array.tobytes()}


class Guard:
    """A condition under which a program serves, and how to say that it does not hold."""

    __slots__ = ("expected", "kind", "other", "place")

    def __init__(self, kind: str, place: Found, expected: Any, other: Found | None = None) -> None:
        self.kind = kind
        self.place = place
        self.expected = expected
        self.other = other

    def holds(self) -> bool:
        return self.fits(self.place.read(), None if self.other is None else self.other.read())

    def fits(self, now: Any, other: Any) -> bool:
        """Whether it holds for what is at the two places."""
        if self.kind == "plain":
            return now is self.expected or (type(now) is type(self.expected) and bool(now == self.expected))
        if self.kind == "same":
            return now is self.expected
        if self.kind == "alias":
            return now is other
        if self.kind == "type":
            return type(now) is self.expected
        if self.kind in READS:
            return now is not MISSING and bool(READS[self.kind](now) == self.expected)
        if self.kind == "absent":
            return bool(
                Variable(Found(None, "root", "", now), self.expected[0], self.expected[1], None).now() is MISSING
            )
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
        if self.kind in READS:
            return f"{self.place} has other {self.kind}"
        if self.kind == "absent":
            return f"{self.place} had no {self.expected[1]}"
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
    """Reads places, after it has checked guards, by generated code: one Python function without loops.

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
        # Written now, while the places still hold what was found there; compiled when they are first run, if they are.
        self._all = _Code(self, tensors, others, self._kept, False)
        self._quick = _Code(self, tensors, others, self._kept, True)
        self._reads = 0  # of everything
        self.runs_once = False  # whether it is to serve for one run, so that no code pays
        self._count = -1  # of assignments to modules when everything was read

    def __call__(self, arguments: Sequence[Tensor]) -> Any:
        """The tensors and the others, for the tensors among the arguments; or what `why` explains, if it does not serve."""
        try:
            if self._count == changes.count[0] and not self.runs_once:
                found = self._quick.function(arguments)
                if found is not None:
                    return found
            count = changes.count[0]
            # Compiling takes longer than reading once, and most programs read everything once.
            self._reads += 1
            by_hand = self.runs_once or self._reads == 1
            found = self._read_by_hand(arguments) if by_hand else self._all.function(arguments)
            self._count = -1
            if type(found) is tuple:
                self._kept[:] = [place.read() for place in self._quick.kept]
                self._count = count
            return found
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return None

    def _read_by_hand(self, arguments: Sequence[Tensor]) -> Any:
        """The same without code."""
        known: dict[int, Any] = {}

        def value(found: Found) -> Any:
            if id(found) not in known:
                if found.parent is None:
                    known[id(found)] = arguments[found.key] if found.how == "argument" else found.value
                else:
                    key = value(found.key) if isinstance(found.key, Found) else found.key
                    known[id(found)] = STEPS[found.how](value(found.parent), key)
            return known[id(found)]

        for number, guard in enumerate(self.guards):
            if not guard.fits(value(guard.place), None if guard.other is None else value(guard.other)):
                return number
        tensors = [value(place) for place in self.places]
        for i, tensor in enumerate(tensors):
            if not self._fits(i, tensor):
                return -1 - i
        return tensors, [value(place) for place in self._others]

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
        # A view is looked at anew each time: what it shows may have got a history.
        self._last[i], self._arrays[i] = None if tensor.is_view() else tensor, tensor._array
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
        self._lines.append(f"    return [{results[0]}], [{results[1]}]")

    @functools.cached_property
    def function(self) -> Callable[[Sequence[Tensor]], Any]:
        source = "\n".join(["def read(arguments):", *self._lines])
        exec(compile(source, "<lucid.compile: captures>", "exec"), self._constants)
        read: Callable[[Sequence[Tensor]], Any] = self._constants["read"]
        return read

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
        return guard.kind not in ("length", "absent", *READS) and all(_hangs_on_modules(p) for p in places)

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
        if guard.kind == "absent" or guard.kind in READS:
            return f"not {self._named(guard.fits)}({v}, None)"
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
