"""`lucid.compile`: a function that is traced once for each kind of arguments, and runs as a program from then on."""

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any

import numpy as np

from lucid.compiler import sizes
from lucid.compiler.calls import AliasedError, Specialization, runs_once
from lucid.compiler.capture import BeginError, Capture, Captured, captured
from lucid.compiler.places import Found, TooManyError, Walk
from lucid.compiler.readers import described, facts
from lucid.compiler.sizes import General, NotGeneralError
from lucid.compiler.verification import verified
from lucid.core import dtypes, levels, modes, tree
from lucid.core.fields import users_attributes
from lucid.core.primitive import lift
from lucid.core.source_lines import here
from lucid.core.tensor import Tensor
from lucid.forks import after_fork
from lucid.ir.program import Program
from lucid.ir.trace import Computed
from lucid.kinds.kind import Kind

MANY = 8  # signatures after which something is probably not as the user thinks
MOST = 32  # programs that are kept for one signature, with different guards
MODES = 4  # entries of a signature before those of arguments

_disabled: ContextVar[bool] = ContextVar("disabled", default=False)
_lock = RLock()  # one trace at a time: it undoes what the function assigns


@after_fork
def _new_lock() -> None:
    global _lock
    _lock = RLock()


class _Every(frozenset[Any]):
    """All arguments, whatever they are called."""

    def __contains__(self, name: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


EVERY = _Every()


class Same:
    """An object as part of a signature: the same one, whatever `==` says."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __repr__(self) -> str:
        return repr(self.value)


class Compiled:
    """A compiled function. Call it like the function that it was made from.

    `print` shows its programs, `explain()` says what was traced and why, `program(*args)` gives the program for some
    arguments.
    """

    compiled_attributes = ("function",)

    def __init__(
        self, function: Callable[..., Any], *, verify: bool, static: Any, donate: Any, dynamic: Any, fast: bool
    ) -> None:
        if not callable(function):
            raise TypeError(f"lucid.compile takes a function or a module, not a {type(function).__name__}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(
                "lucid.compile: a generator or coroutine gives its results one by one; compile what it calls"
            )
        self.function = function
        self.verify = verify
        self.fast = fast
        parameters = _parameters(function)
        self._static = _chosen("static", static, parameters)
        self._donated = _chosen("donate", donate, parameters)
        self._dynamic = EVERY if dynamic is True else _chosen("dynamic", dynamic or (), parameters)
        self._parameters = parameters
        self._known: dict[Any, list[Specialization]] = {}
        self._general: dict[Any, list[General]] = {}  # by signatures without rows
        self._by_rows: dict[Any, str] = {}  # signatures for which each number of rows is traced, and why
        self._served: set[int] = set()  # numbers of rows that no trace was needed for
        self._last_words: dict[str, str] = {}
        self._history: list[tuple[str, str]] = []  # the arguments of each trace, and why it was made
        self._counted: set[Any] = set()
        self._asides: dict[str, int] = {}  # reasons for which calls ran as they are, and how often
        self._too_many: dict[Any, str] = {}  # signatures of calls that see more than can be looked at, and what that is
        self._name = getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _disabled.get() or levels.active.get() or (levels.tracing() and levels.trace.get() is not None):
            return self.function(*args, **kwargs)
        if modes.saved_hooks.get() or modes.anomaly.get():
            return self._aside("saved-tensor hooks or anomaly detection look at each operation", args, kwargs)
        key, tensors, args, kwargs = self._signature(args, kwargs)
        if key is None:
            return self.function(*args, **kwargs)
        if self.verify:
            run = functools.partial(self._run, key, tensors, args, kwargs)
            plain = functools.partial(self.function, *args, **kwargs)
            return verified(self._name, plain, run, self._roots(tree.flatten((args, kwargs))[0]), tensors)
        return self._run(key, tensors, args, kwargs)

    def _run(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        try:
            for known in reversed(self._known.get(key, ())):
                if known.found.eager:
                    continue
                found = known(tensors)
                if type(found) is list:
                    return found[0]
            if key not in self._too_many:
                return self._first_call(key, tensors, args, kwargs)
        except AliasedError:
            return self._aside("an argument shares memory with a tensor that is written", args, kwargs)
        except TooManyError as error:
            self._too_many[key] = str(error)
            self._warn(
                f"lucid.compile runs `{self._name}` as it is: {error}. Give it what it needs as arguments, or let "
                "lucid.compiler.disable wrap what reads the rest."
            )
        return self._aside(self._too_many[key], args, kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """As a method: bound to an object like any function."""
        return self if owner is None else functools.partial(self, owner)

    def _aside(self, reason: str, args: Any, kwargs: Any) -> Any:
        """Run a call as it is, and note why."""
        self._asides[reason] = self._asides.get(reason, 0) + 1
        return self.function(*args, **kwargs)

    # Signatures.

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Tensor], Any, Any]:
        """What the call is like, the tensors among the arguments, and the arguments with arrays as tensors.

        None if an argument belongs to a transform.
        """
        tensors: list[Tensor] = []
        casting = modes.autocast.get()
        parts: list[Any] = [
            modes.recording.get(), modes.inference.get(), None if casting is None else casting.settings,
            dtypes.get_default_dtype(),
        ]  # fmt: skip
        for i, arg in enumerate(args):
            if type(arg) is Tensor:
                array = arg._array
                tensors.append(arg)
                flags = None if array.flags.c_contiguous else array.strides
                requires_grad = arg._requires_grad if arg._meta is None else arg.requires_grad
                parts.append((array.shape, array.dtype, requires_grad, flags))
            elif isinstance(arg, np.ndarray):
                lifted = lift(arg)
                args = (*args[:i], lifted, *args[i + 1 :])
                tensors.append(lifted)
                parts.append(facts(lifted))
            else:
                parts.append(self._part(arg, i, tensors))
        for name in sorted(kwargs):
            parts.append((name, self._part(kwargs[name], name, tensors)))
        if any(isinstance(t, Kind) for t in tensors):
            return None, tensors, args, kwargs
        if len(tensors) > 1 and len(set(map(id, tensors))) < len(tensors):
            first: dict[int, int] = {}
            parts.append(tuple([first.setdefault(id(t), i) for i, t in enumerate(tensors)]))
        return tuple(parts), tensors, args, kwargs

    def _part(self, arg: Any, place: int | str, tensors: list[Tensor]) -> Any:
        if self._static and self._named(place) in self._static and _is_hashable(arg):
            return type(arg), arg
        leaves, structure = tree.flatten(arg)
        parts: list[Any] = [_key_of(structure)]
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                tensors.append(leaf)
                parts.append(facts(leaf))
            elif isinstance(leaf, np.ndarray):
                raise TypeError(
                    f"{self._name}: arrays inside of containers cannot be arguments of a compiled function; make tensors of "
                    "them with lucid.from_numpy"
                )
            elif isinstance(leaf, (bool, int, float, complex, str, bytes)):
                parts.append((type(leaf), leaf))
            else:
                parts.append(Same(leaf))
        return tuple(parts)

    def _named(self, place: int | str) -> str | int:
        """An argument by its name, if that is known."""
        if isinstance(place, int) and place < len(self._parameters):
            return self._parameters[place]
        return place

    # Tracing.

    def _first_call(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Trace the function for arguments that no program serves, and run the program."""
        with ExitStack() as begun:
            with _lock:
                for known in reversed(self._known.get(key, ())):  # another thread may have been faster
                    if known.found.eager:
                        return self._aside(known.found.eager, args, kwargs)
                    found = known(tensors)
                    if type(found) is list:
                        return found[0]
                results = self._with_other_rows(key, tensors, args, kwargs)
                if results is not None:
                    return results[0]
                made = self._traced(key, tensors, args, kwargs, begun)
            found = None if made.found.eager else made(tensors)
            if type(found) is list:
                begun.pop_all()  # the state of optimizers stays
                return found[0]
        if made.found.eager:
            return self._aside(made.found.eager, args, kwargs)
        raise RuntimeError(f"lucid.compile: `{self._name}` cannot be run again as it was traced: {made.why(found)}")

    def _traced(
        self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any, begun: ExitStack | None = None
    ) -> Specialization:
        """A new program. If there is `begun`, the state of optimizers may be made, and it knows how to remove it."""
        words = _words(args, kwargs)
        reason = self._reason(key, tensors, words)
        self._last_words = words
        leaves, structure = tree.flatten((args, kwargs))
        assert all(a is b for a, b in zip([t for t in leaves if isinstance(t, Tensor)], tensors, strict=True))
        walk, found = self._captured(args, kwargs, leaves, structure, begun)
        for program in (found.program, found.inlined):
            program.fast = self.fast
            if found.pulled is None:  # else a derivative may read what was given
                program.donated = self._donated_names(program, args, kwargs)
        any_rows = self._any_rows(key, found, args, kwargs, leaves, structure, walk) if self._dynamic else None
        made = Specialization(found, walk)
        self._keep(self._known, key, made)
        if any_rows is not None:
            any_rows.like = made
            self._keep(self._general, self._without_rows(key), any_rows)
        self._history.append((", ".join(described(facts(t)) for t in tensors), reason))
        self._count(key, reason)
        return made

    def _captured(
        self, args: Any, kwargs: Any, leaves: Sequence[Any], structure: Any, begun: ExitStack | None
    ) -> tuple[Walk, Captured]:
        given = [t for t in leaves if isinstance(t, Tensor)]
        while True:
            walk = Walk(self._roots([*leaves, *_beside_leaves(structure)]))
            trace = Capture(given, self._name, begun is not None)
            try:
                return walk, captured(self.function, args, kwargs, leaves, structure, walk, trace)
            except BeginError as signal:
                assert begun is not None
                begun.callback(signal.remove)
                signal.make()

    @staticmethod
    def _keep(known: dict[Any, list[Any]], key: Any, made: Any) -> None:
        group = known.setdefault(key, [])
        group.append(made)
        if len(group) > MOST:
            del group[0]

    # Other numbers of rows.

    def _any_rows(
        self, key: Any, found: Captured, args: Any, kwargs: Any, leaves: Sequence[Any], structure: Any, walk: Walk
    ) -> General | None:
        """What was traced for any number of rows, if that can be said."""
        rows, varies = self._rows(args, kwargs, leaves)
        if rows is None or runs_once(found) or self._without_rows(key) in self._by_rows:
            return None
        try:
            return sizes.general(self.function, found, leaves, structure, varies, walk)
        except Exception as error:  # whatever the function raises for other sizes
            is_own = isinstance(error, NotGeneralError)
            reason = str(error) if is_own else f"with other rows it raises {type(error).__name__}: {error}"
            self._by_rows[self._without_rows(key)] = reason
            return None

    def _rows(self, args: Any, kwargs: Any, leaves: Sequence[Any]) -> tuple[int | None, list[bool]]:
        """The number of rows of dynamic arguments, None if there is not one that a general program can have; and which
        tensors these are.
        """
        varies = self._are_named(self._dynamic, args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        counts = {t.shape[0] for t, varied in zip(tensors, varies, strict=True) if varied and t.ndim}
        is_one = len(counts) == 1 and sizes.FEWEST <= min(counts) <= sizes.MOST
        return (counts.pop() if is_one else None), varies

    def _with_other_rows(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> list[Any] | None:
        """The results by a program that was traced for another number of rows, in a list; None if there is none."""
        candidates = self._general.get(self._without_rows(key), ()) if self._general else ()
        rows = self._rows(args, kwargs, tensors)[0] if candidates else None
        if rows is None:
            return None
        for candidate in reversed(candidates):
            made = candidate.at(rows)
            found: Any = made(tensors)
            if type(found) is list:
                self._keep(self._known, key, made)
                self._served.add(rows)
                return found
        return None

    def _without_rows(self, key: Any) -> Any:
        """A signature without the sizes of the first dimensions of dynamic arguments."""
        return (
            *key[:MODES],
            *[
                _any_first_size(part) if self._name_of(i, part) in self._dynamic else part
                for i, part in enumerate(key[MODES:])
            ],
        )

    def _roots(self, leaves: Sequence[Any]) -> list[Found]:
        """From where everything is reached that the function can see: itself, and arguments that are no values.

        Of tensors, only those that have attributes: what else is theirs goes with the argument.
        """
        others = [v for v in leaves if not isinstance(v, (Tensor, bool, int, float, str))]
        tensors = [v for v in leaves if isinstance(v, Tensor)]
        return [
            Found(None, "root", self._name, self.function),
            *[Found(None, "root", "an argument", v) for v in others],
            *[Found(None, "argument", i, t) for i, t in enumerate(tensors) if users_attributes(t)],
        ]

    def _donated_names(self, program: Program, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The inputs whose memory a run may use for its results."""
        if not self._donated:
            return ()
        places = self._are_named(self._donated, args, kwargs)
        return tuple([n for n, donated in zip(program.inputs, places, strict=True) if donated])

    def _are_named(self, chosen: frozenset[Any], args: Any, kwargs: Any) -> list[bool]:
        """Of each tensor among the arguments, whether an option names it."""
        named = [(self._named(i), a) for i, a in enumerate(args)] + [(k, kwargs[k]) for k in sorted(kwargs)]
        return [name in chosen for name, a in named for leaf in tree.flatten(a)[0] if isinstance(leaf, Tensor)]

    def _reason(self, key: Any, tensors: Sequence[Tensor], words: dict[str, str]) -> str:
        """Why none of the programs serves, in words."""
        same = self._known.get(key)
        if same:
            last = same[-1]
            found = last(tensors) if not last.found.eager else None
            return last.why(found if not isinstance(found, list) else None)
        if not self._known:
            return "it was called for the first time"
        for other in self._general.get(self._without_rows(key), ())[-1:]:
            read = other.like.reader(tensors)  # which does not depend on the rows
            if type(read) is not tuple:
                return other.like.why(read)
        return _difference(self._last_words, words)

    def _count(self, key: Any, reason: str) -> None:
        """Warn when there are many signatures; sizes that may vary count once."""
        general = key
        if self._dynamic:
            general = (*key[:MODES], *[self._without_sizes(i, part) for i, part in enumerate(key[MODES:])])
        self._counted.add((general, len(self._known[key]) if not self._dynamic else 0))
        if len(self._counted) == MANY + 1:
            self._warn(
                f"lucid.compile has traced `{self._name}` for more than {MANY} signatures; the last time since {reason}. "
                "Each takes time and memory. Pass numbers that change as tensors, name dimensions that vary in `dynamic=`, "
                "and see explain()."
            )

    @staticmethod
    def _warn(words: str) -> None:
        place = here()
        warnings.warn_explicit(words, UserWarning, place.filename, place.line)

    def _name_of(self, place: int, part: Any) -> str | int:
        """The argument that a part of a signature describes."""
        return part[0] if isinstance(part, tuple) and part and isinstance(part[0], str) else self._named(place)

    def _without_sizes(self, place: int, part: Any) -> Any:
        name = self._name_of(place, part)
        if name not in self._dynamic or not isinstance(part, tuple):
            return part
        return name, len(part[0]) if isinstance(part[0], tuple) else len(part)

    # Looking at it.

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for some arguments; traces it if there is none yet, and runs nothing."""
        return self._specialized(args, kwargs).found.program

    def code(self, *args: Any, **kwargs: Any) -> str:
        """What runs for some arguments, one line for each step; traces and compiles if need be, and runs nothing."""
        code = getattr(self._specialized(args, kwargs).executable, "code", None)
        return "instruction by instruction, without machine code" if code is None else "\n".join(code.notes)

    def picture(self, *args: Any, **kwargs: Any) -> str:
        """What was fused for some arguments, as an SVG: instructions on the left, and the steps that do them on the right."""
        from lucid.compiler.picture import picture

        return picture(self.program(*args, **kwargs))

    def _specialized(self, args: Any, kwargs: Any) -> Specialization:
        key, tensors, args, kwargs = self._signature(args, kwargs)
        if key is None:
            raise TypeError(f"{self._name}: arguments inside of a transform have no program of their own")
        with _lock:
            for known in reversed(self._known.get(key, ())):
                if type(known.reader(tensors)) is tuple:
                    return known
            return self._traced(key, tensors, args, kwargs)

    def explain(self) -> str:
        """What was traced, and why; and which calls ran as they are."""
        lines = [f"{self._name}: {len(self._history)} program{'s' * (len(self._history) != 1)}"]
        lines += [f"  {i}. for ({given}): {why}" for i, (given, why) in enumerate(self._history, 1)]
        lines += [f"  {count} calls ran as they are: {reason}" for reason, count in self._asides.items()]
        if self._served:
            lines.append(f"  without a trace of their own: {', '.join(map(str, sorted(self._served)))} rows")
        lines += [f"  each number of rows is traced: {reason}" for reason in dict.fromkeys(self._by_rows.values())]
        back = {name for group in self._known.values() for known in group for name in known.calls_back()}
        if back:
            lines.append(f"  kernels and functions that are called by the programs: {', '.join(sorted(back))}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<compiled {self._name}: {len(self._history)} program{'s' * (len(self._history) != 1)}>"

    def __str__(self) -> str:
        programs = [str(s.found.program) for group in self._known.values() for s in group]
        return "\n\n".join([repr(self), *programs])

    # Copies are compiled anew.

    def _options(self) -> dict[str, Any]:
        chosen = {"static": self._static, "donate": self._donated, "dynamic": self._dynamic}
        named: dict[str, Any] = {k: True if v is EVERY else sorted(v, key=str) for k, v in chosen.items()}
        return {"verify": self.verify, "fast": self.fast, **named}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Compiled":
        return Compiled(copy.deepcopy(self.function, memo), **self._options())

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled_anew, (self.function, self._options())


def _compiled_anew(function: Callable[..., Any], options: dict[str, Any]) -> Compiled:
    return Compiled(function, **options)


def compile(
    fn: Callable[..., Any] | None = None,
    *,
    verify: bool = False,
    static: Any = (),
    donate: Any = (),
    dynamic: Any = (),
    fast: bool = False,
) -> Any:
    """A function that does what `fn` does, as one program; also a decorator.

    The first call with arguments of new shapes and types runs `fn` once without computing anything, and writes down the
    operations: those of backward passes, optimizer steps, random draws and writes to tensors from outside, too. Calls
    from then on run the program. Tensors that `fn` finds outside (parameters, buffers, the state of optimizers) are
    looked up again at each call, and learning rates are read anew; if another Python value that `fn` can see has
    changed, it is traced again. The result can be differentiated, and used in any transform.

    `static` names arguments, by name or position, that are compared as they are, containers included. The first dimension of
    tensors in those of `dynamic` may vary: to find out what depends on it, `fn` is traced for four sizes at first, and only
    then for others if it looks at the size; `dynamic=True` names all. The memory of those in `donate` may be used for
    results: their elements are lost. `fast=True` allows algebra that changes rounding. `verify=True` compares each call
    with `fn` itself.

    >>> import lucid
    >>> weight = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> @lucid.compile
    ... def loss(x):
    ...     return ((x * weight) ** 2).sum()
    >>> value = loss(lucid.tensor([3.0, 1.0]))
    >>> value.backward()
    >>> value.item(), weight.grad
    (13.0, Tensor([18.,  4.]))
    """
    options: dict[str, Any] = {"verify": verify, "static": static, "donate": donate, "dynamic": dynamic, "fast": fast}
    if fn is None:
        return lambda function: Compiled(function, **options)
    return fn if isinstance(fn, Compiled) else Compiled(fn, **options)


def is_compiling() -> bool:
    """Whether the code that runs now is being traced by `lucid.compile`.

    >>> import lucid
    >>> lucid.compiler.is_compiling(), lucid.compile(lambda: lucid.compiler.is_compiling())()
    (False, True)
    """
    return bool(levels.capturing())


def disable(fn: Callable[..., Any] | None = None) -> Any:
    """A decorator and a context in which compiled functions run as they are.

    Where a program is traced, a function with this decorator is one instruction that calls it at each run, with the
    values of then: it may print, or use NumPy, and gives a tensor or a tuple of tensors, through which no gradient flows.

    >>> import lucid
    >>> @lucid.compiler.disable
    ... def largest(x):
    ...     return lucid.tensor(max(x.tolist()))
    >>> lucid.compile(lambda x: largest(x) * 2)(lucid.tensor([1.0, 5.0]))
    Tensor(10.)
    """
    if fn is None:
        return _switched_off()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        trace = levels.trace.get() if levels.capturing() else None
        if trace is not None:
            return _called_back(fn, trace, args, kwargs)
        with _switched_off():
            return fn(*args, **kwargs)

    call.runs_apart = True  # type: ignore[attr-defined]
    return call


@contextmanager
def _switched_off() -> Iterator[None]:
    token = _disabled.set(True)
    try:
        yield
    finally:
        _disabled.reset(token)


def _called_back(fn: Callable[..., Any], trace: Any, args: Any, kwargs: Any) -> Any:
    """A call as one instruction of the program that is traced."""
    leaves, structure = tree.flatten((args, kwargs))
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if modes.recording.get() and any(t.requires_grad for t in given):
        raise RuntimeError(
            f"lucid.compiler.disable: `{fn.__name__}` is called at each run, and no gradient flows through it; detach() its "
            "arguments"
        )
    single: list[bool] = []

    def compute(*values: Tensor) -> tuple[Tensor, ...]:
        supply = iter(values)
        new_args, new_kwargs = structure.unflatten([next(supply) if isinstance(v, Tensor) else v for v in leaves])
        out = fn(*new_args, **new_kwargs)
        single.append(isinstance(out, Tensor))
        outs = (out,) if isinstance(out, Tensor) else tuple(out or ())
        if not all(isinstance(o, Tensor) for o in outs):
            raise TypeError(
                f"lucid.compiler.disable: `{fn.__name__}` must give a tensor or a tuple of tensors inside of a program"
            )
        return outs

    what = Computed(getattr(fn, "__name__", "call"), compute)
    what.lasting = True
    made = trace.run(what, what, [trace.refer(t) for t in given])
    return made[0] if single[0] else tuple(made)


def _parameters(function: Any) -> list[str]:
    target = getattr(function, "forward", function) if not inspect.isroutine(function) else function
    try:
        return [p.name for p in inspect.signature(target).parameters.values()]
    except (TypeError, ValueError):
        return []


def _chosen(option: str, given: Any, parameters: Sequence[str]) -> frozenset[Any]:
    """The arguments that an option names, by name or by position."""
    chosen = (given,) if isinstance(given, (str, int)) else tuple(given)
    for item in chosen:
        fits = item in parameters if isinstance(item, str) else isinstance(item, int)
        if not fits and parameters:
            raise ValueError(
                f"lucid.compile: {option}= names arguments by name or position; {item!r} is none of {', '.join(parameters)}"
            )
    return frozenset(parameters[c] if isinstance(c, int) and c < len(parameters) else c for c in chosen)


def _any_first_size(part: Any) -> Any:
    """A part of a signature in which the first sizes of tensors are left out."""
    if not isinstance(part, tuple):
        return part
    for place, kind in enumerate(part[1:3]):
        if isinstance(kind, np.dtype):  # which stands behind the shape
            return (*part[:place], part[place][1:], len(part[place]), *part[place + 1 :])
    return tuple([_any_first_size(p) for p in part])


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _key_of(structure: Any) -> Any:
    if structure.key is tree.LEAF:
        return None
    key = structure.key if _is_hashable(structure.key) else (*structure.key[:2], Same(structure.key[2]))
    return key, *[_key_of(child) for child in structure.children]


def _beside_leaves(structure: Any) -> list[Any]:
    """What a nest holds that is no leaf, such as the positions of the entries of sparse tensors."""
    own = [structure.key[2]] if structure.key is not tree.LEAF and len(structure.key) > 2 else []
    return [*own, *[rest for child in structure.children for rest in _beside_leaves(child)]]


def _words(args: Any, kwargs: Any) -> dict[str, str]:
    """The modes and arguments of a call in words, by what they are called."""
    casting = modes.autocast.get()
    found = {
        "whether operations are recorded": str(bool(modes.recording.get())),
        "inference mode": str(modes.inference.get()),
        "autocast": "off" if casting is None else str(casting.dtype),
        "the default dtype": str(dtypes.get_default_dtype()),
    }
    named = [*[(f"argument {i}", a) for i, a in enumerate(args)], *[(f"argument {k!r}", v) for k, v in kwargs.items()]]
    for name, arg in named:
        leaves, _ = tree.flatten(arg)
        for path, leaf in zip(tree.paths(arg), leaves, strict=True):
            found[f"{name}{path}"] = described(facts(leaf)) if isinstance(leaf, Tensor) else repr(leaf)
    return found


def _difference(before: dict[str, str], now: dict[str, str]) -> str:
    """What two calls differ in."""
    for name, value in now.items():
        if before.get(name) != value:
            return f"{name} was {before[name]}, now {value}" if name in before else f"{name} was not given before"
    gone = [name for name in before if name not in now]
    return f"{gone[0]} is not given any more" if gone else "arguments are the same tensor, or of another kind"
