"""`lucid.func.export`: a function as a file that runs without the Python that made it.

The file is one safetensors file. Its arrays are the constants of the program, the tensors that the function captured
among them, and its metadata holds the program as JSON (`lucid.ir.serialization`), a version and checksums.
"""

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lucid.api import rng
from lucid.api.random import DRAW, Distribution
from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.files import CHECKSUMS, TensorFile, package
from lucid.checkpoints.saving import save_arrays
from lucid.checkpoints.structure import paired
from lucid.compiler.executable import Executable
from lucid.core import dtypes, levels, modes, tree
from lucid.forks import after_fork
from lucid.func.control import FLOW
from lucid.ir.printing import text_of
from lucid.ir.program import INPUT, Program
from lucid.ir.serialization import Form, Reader, Writer, register
from lucid.ir.trace import traced
from lucid.ir.validation import ExportError
from lucid.ir.values import Name
from lucid.kinds.kind import Kind

PROGRAM, VERSION, SIGNATURE = "lucid.program", "lucid.program.version", "lucid.program.signature"
CURRENT_VERSION = "1"
MAX_LENGTH = 64 << 20  # characters of JSON
MAX_MEMORY = 64 << 30  # bytes that the values of a run may take at once, unless the user allows more
# What reading a file that nobody wrote may run into.
_WRONG = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError)
_lock = Lock()


@after_fork
def _new_lock() -> None:
    global _lock
    _lock = Lock()


class Argument(NamedTuple):
    """An input or output of an exported program."""

    name: str
    dtype: dtypes.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}{list(self.shape)}"


class Exported:
    """A function that stands by itself: a program with its constants. Made by `export` and `load_exported`.

    Call it with arguments of the same structure, shapes and types as those it was exported for. On plain tensors it runs as
    machine code; where somebody asks for derivatives, and inside transforms, as ordinary operations. `print` shows the
    program. `inputs` and `outputs` are names, types and shapes.

    >>> import lucid
    >>> exported = lucid.func.export(lambda x: x * 2 + 1, (lucid.ones(3),))
    >>> exported(lucid.tensor([1.0, 2.0, 3.0]))
    Tensor([3., 5., 7.])
    >>> lucid.func.grad(lambda x: exported(x).sum())(lucid.ones(3))
    Tensor([2., 2., 2.])
    """

    def __init__(self, program: Program, text: str, arrays: Mapping[str, Any], names: Sequence[Sequence[str]]) -> None:
        self.program = program
        self._text = text
        self._arrays = arrays
        self._names = names
        self._executable: Executable | None = None
        results = [o for o in program.outputs if isinstance(o, Name)]
        self.inputs = tuple([Argument(s, n.dtype, n.shape) for s, n in zip(names[0], program.inputs, strict=True)])
        self.outputs = tuple([Argument(s, n.dtype, n.shape) for s, n in zip(names[1], results, strict=True)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        program = self.program
        if structure != program._arguments:
            raise ValueError(
                f"{program.name}: exported for arguments {program._arguments}, but called with {structure}; it takes "
                f"({', '.join(map(str, self.inputs))})"
            )
        inputs = program._checked(leaves)
        followed = levels.active.get() or levels.tracing() or modes.saved_hooks.get() or modes.anomaly.get()
        recorded = modes.recording.get() and any(t.requires_grad for t in inputs)
        if followed or recorded or any(isinstance(t, Kind) for t in inputs):
            return program._results.unflatten(program.run(inputs))
        return program._results.unflatten(self._compiled().run(inputs, []))

    def _compiled(self) -> Executable:
        if self._executable is None:
            with _lock:
                if self._executable is None:
                    self._executable = Executable(self.program)
        return self._executable

    def save(self, file: Any) -> None:
        """Write the program to a path, or to a file object that is open for writing bytes.

        >>> import io, lucid
        >>> buffer = io.BytesIO()
        >>> lucid.func.export(lambda x: x.exp(), (lucid.zeros(2),)).save(buffer)
        >>> _ = buffer.seek(0)
        >>> lucid.func.load_exported(buffer)(lucid.zeros(2))
        Tensor([1., 1.])
        """
        package()
        metadata = {VERSION: CURRENT_VERSION, SIGNATURE: json.dumps(self._names), PROGRAM: self._text}
        if isinstance(file, (str, os.PathLike)):
            save_arrays(file, self._arrays, metadata)
            return
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "program.safetensors")
            save_arrays(path, self._arrays, metadata)
            with open(path, "rb") as source:
                shutil.copyfileobj(source, file)

    def __repr__(self) -> str:
        taken, given = (", ".join(map(str, part)) for part in (self.inputs, self.outputs))
        return f"<Exported {self.program.name}({taken}) -> ({given}): {len(self.program)} instructions>"

    def __str__(self) -> str:
        return text_of(self.program)


def export(
    fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, file: Any = None
) -> Exported:
    """Trace `fn(*args, **kwargs)` and give it as a program that needs nothing from outside; write it to `file`, if given.

    `fn` is a function or a module. Of tensors among the arguments only shapes and types matter, other arguments are fixed.
    What `fn` captures, such as the parameters of a module, is stored with the values of now. What `fn` computes with, `if` and
    `for` included, is in the program as it was for these arguments: see `lucid.func.make_graph`.

    `load_exported` reads the file back, in another process, without the code of `fn`. A file cannot hold what is no operation on
    tensors. So custom functions, writes to tensors from outside and draws other than those of `rand` and `randn` from
    the default generator raise `ExportError`, which names the line and says what to do.

    >>> import lucid, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "line.safetensors")
    >>> weight = lucid.tensor([2.0, 3.0])
    >>> exported = lucid.func.export(lambda x: (x * weight).sum(), (lucid.ones(2),), file=path)
    >>> exported
    <Exported <lambda>(x: float32[2]) -> (result: float32[]): 2 instructions>
    >>> loaded = lucid.func.load_exported(path)
    >>> loaded(lucid.tensor([10.0, 1.0]))
    Tensor(23.)
    """
    if not callable(fn):
        raise TypeError(f"export takes a function or a module, not a {type(fn).__name__}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"export: args must be a tuple of the arguments, not a {type(args).__name__}")
    if levels.active.get() or (levels.tracing() and levels.trace.get() is not None):
        raise ExportError("export: inside of a transform or a traced function there are no values to export")
    exported = of_program(traced(fn, tuple(args), dict(kwargs or {})), fn)
    if file is not None:
        exported.save(file)
    return exported


def of_program(program: Program, fn: Any) -> Exported:
    """A program that was traced from a function, by itself."""
    writer = Writer(_tensor_names(fn))
    text = json.dumps(writer.program(program), separators=(",", ":"), allow_nan=False)
    if len(text) > MAX_LENGTH:
        raise ExportError(
            f"export: the program takes {len(text)} characters, more than the {MAX_LENGTH} that are allowed"
        )
    # The way that a file takes: what is given back is what a file would give.
    read = read_program(text, lambda name, dtype: writer.arrays[name], None)
    return Exported(read, text, writer.arrays, _argument_names(fn, program))


def load_exported(file: Any, *, max_memory: int = MAX_MEMORY) -> Exported:
    """Read a program that `export` wrote, from a path or a file object that is open for reading bytes.

    Everything is checked: version, checksums, that primitives are known, and that types and shapes follow from each other.
    No code is read or executed, and a program whose values would take more than `max_memory` bytes at once is refused; how
    long a loop runs is not known. What cannot be read raises `ExportError`.

    >>> import io, lucid
    >>> try:
    ...     lucid.func.load_exported(io.BytesIO(b"something else"))
    ... except lucid.func.ExportError as error:
    ...     print("refused")
    refused
    """
    with _on_disk(file) as path:
        try:
            with TensorFile(path) as source:
                return _loaded(source, max_memory)
        except (CheckpointError, ExportError) as error:
            message = str(error).removeprefix(f"{path}: ")
            raise ExportError(f"{file if isinstance(file, (str, os.PathLike)) else 'the file'}: {message}") from None


def _loaded(source: TensorFile, max_memory: int) -> Exported:
    metadata = source.metadata
    text, version, signature = (metadata.get(key) for key in (PROGRAM, VERSION, SIGNATURE))
    if text is None or version is None or signature is None:
        raise ExportError("it holds no exported program; `lucid.load` reads files of tensors")
    if version != CURRENT_VERSION:
        raise ExportError(
            f"it has version {version[:20]!r} of the format; this version of Lucid reads {CURRENT_VERSION!r}"
        )
    if CHECKSUMS not in metadata:
        raise ExportError("it has no checksums")
    if len(text) > MAX_LENGTH:
        raise ExportError(f"its program has {len(text)} characters, more than the {MAX_LENGTH} that are allowed")
    arrays: dict[str, Any] = {}

    def array(name: str, dtype: Any) -> Any:
        if name not in arrays:
            found = source.read(name)
            arrays[name] = paired(found) if dtype == np.complex128 else found
        return arrays[name]

    program = read_program(text, array, max_memory)
    return Exported(program, text, arrays, _checked_names(signature, program))


def read_program(text: str, array: Callable[[str, Any], Any], max_memory: int | None) -> Program:
    """The program of a text; what is wrong with it is an ExportError."""
    try:
        node = json.loads(text, parse_constant=_refuse)
        return Reader(array, (1 << 62) if max_memory is None else max_memory).program(node)
    except (ExportError, CheckpointError):
        raise
    except _WRONG as error:
        raise ExportError(f"its program cannot be read: {type(error).__name__}: {error}") from None


def _refuse(constant: str) -> Any:
    raise ExportError(f"its program has {constant}, which is not JSON")


def _checked_names(text: str, program: Program) -> list[list[str]]:
    counts = [len(program.inputs), sum(isinstance(o, Name) for o in program.outputs)]
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not (
        isinstance(names, list)
        and [len(n) if isinstance(n, list) else None for n in names] == counts
        and all(isinstance(s, str) for part in names for s in part)
    ):
        raise ExportError("its signature does not fit its program")
    return names


@contextmanager
def _on_disk(file: Any) -> Iterator[str]:
    """The path of a file, or of a copy of what a file object has."""
    if isinstance(file, (str, os.PathLike)):
        yield os.fsdecode(file)
        return
    if not hasattr(file, "read"):
        raise TypeError(f"load_exported takes a path or a file object, not a {type(file).__name__}")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "program.safetensors")
        with open(path, "wb") as target:
            shutil.copyfileobj(file, target)
        yield path


def _tensor_names(fn: Any) -> dict[int, str]:
    """The names of the parameters and buffers of a module."""
    if not hasattr(fn, "named_parameters") or not hasattr(fn, "named_buffers"):
        return {}
    return {id(t): name for name, t in (*fn.named_parameters(), *fn.named_buffers())}


def _argument_names(fn: Any, program: Program) -> list[list[str]]:
    """How a user calls each input and output: `x`, `batch['image']`, `result[0]`."""
    arguments, results = program._arguments, program._results
    args, kwargs = arguments.unflatten(program._static)
    target = fn if inspect.isroutine(fn) else getattr(fn, "forward", fn)
    try:
        known = [p.name for p in inspect.signature(target).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        known = []
    firsts = [known[i] if i < len(known) else f"args[{i}]" for i in range(len(args))]
    nested = [(first, arg) for first, arg in zip(firsts, args, strict=True)]
    nested += [(key, kwargs[key]) for key in sorted(kwargs)]
    paths = [f"{first}{path}" for first, arg in nested for path in tree.paths(arg)]
    taken = [path for path, static in zip(paths, program._static, strict=True) if static is INPUT]
    made = tree.paths(results.unflatten([INPUT] * results.count))
    given = [f"result{path}" for path, out in zip(made, program.outputs, strict=True) if isinstance(out, Name)]
    return [taken, given]


# --- random numbers ------------------------------------------------------------------------------

_SOURCES = {source.name: source for source in (rng.UNIFORM, rng.OPEN_UNIFORM, rng.NORMAL)}


def _write_distribution(value: Distribution, writer: Writer) -> Any:
    source, kind, finish, caller = value
    if finish is not None or _SOURCES.get(source.name) is not source:
        raise ExportError(
            f"{caller.strip('_')} draws by {value.name}, which a file cannot hold; call eval() on modules with "
            "dropout, make it of lucid.rand or lucid.randn, or pass the numbers as an argument"
        )
    return [source.name, kind.name, caller]


def _read_distribution(node: Any, reader: Any) -> Distribution:
    parts = reader.value(node)
    if type(parts) is not tuple or len(parts) != 3 or not all(type(p) is str for p in parts):
        raise ExportError("a draw has no distribution")
    source, kind, caller = parts
    if source not in _SOURCES or kind not in _KINDS:
        raise ExportError(f"there is no distribution {source[:40]!r} of {kind[:40]!r}")
    return Distribution(_SOURCES[source], _KINDS[kind], None, caller)


_KINDS = {t.name: t.numpy for t in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)}
_KINDS |= {t.name: t.numpy for t in (dtypes.complex64, dtypes.complex128)}


def _write_stream(value: rng.Stream, writer: Writer) -> Any:
    if value.found is not None:
        raise ExportError(
            "the function draws from a Generator of its own, which a file cannot hold; draw from the default one, or "
            "pass the numbers as an argument"
        )
    return True


register(
    [
        Form("distribution", Distribution, _write_distribution, _read_distribution),
        Form("default_generator", rng.Stream, _write_stream, lambda node, reader: rng.Stream(None)),
    ],
    {DRAW.name: DRAW},
    FLOW,
)

__all__ = ["Argument", "ExportError", "Exported", "export", "load_exported"]
