"""Machine code for the hot paths, where it was built: the same modules, compiled by Cython.

Most are compiled from the `.py` files as they are. Where a module also has a `.pyx` file, that one is compiled: loops
over memory, which take the place of what the `.py` file does by calls of NumPy.

`tools/build_native.py` builds it, and installing the package calls that. Without it, or with the variable
LUCID_PURE=1 in the environment, the sources run as they are and do the same, more slowly; debuggers then step into them.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from operator import attrgetter
from typing import Any
from zlib import crc32

# What small calls run through. A module costs every installation seconds of the compiler, so what makes none of them
# faster is not here (`python -m benchmarks.prices`, and the rows of `python -m benchmarks` for steps and transforms).
#
# A compiled function has no frame, and NumPy's warnings are filtered by the frame in which they arise. So kernels in
# compiled modules are `framed`, or call NumPy's functions by such a frame.
MODULES = (
    "core.arrays", "core.fields", "core.source_lines", "core.destinations", "core.storage", "core.tensor", "core.node", "core.detachments", "core.collector",
    "core.primitive", "core.tree", "core.levels", "kinds.kind", "kinds.dual", "kinds.batched",
    "tape.geometry", "tape.engine", "tape.inplace", "autograd.dependencies",
    "arguments.dims", "arguments.out", "arguments.promotion",
    "ops.rules", "ops.categories", "ops.elementwise", "ops.contraction",
    "ops.indexing", "ops.unary", "ops.binary", "ops.one_loop", "api.contractions", "api.conversion", "api.counting", "api.creation",
    "api.differences", "api.distances", "api.indexing", "api.inplace", "api.joining",
    "api.random", "api.random_fills", "api.reductions", "api.rng", "api.scatter", "api.shaping", "api.sorting", "api.splitting", "api.statistics", "api.strides",
    "ops.fused", "ops.nn.linear", "ops.nn.cross_entropy", "ops.nn.softmax", "backends.cpu.elementwise", "backends.numpy.memory",
    "backends.cpu.contraction", "backends.cpu.nn.linear", "backends.cpu.nn.cross_entropy", "backends.cpu.nn.normalization",
    "fft.arguments", "linalg.norms", "linalg.operands", "linalg.determinants", "linalg.eigen", "linalg.factorizations",
    "linalg.products", "linalg.solvers", "nn.functional.activations", "nn.functional.classification",
    "nn.functional.losses", "nn.functional.normalization", "nn.functional.pooling",
    "nn.functional.spatial", "nn.functional.padding", "nn.functional.vision", "nn.module", "nn.containers",
    "optim.elementwise", "optim.layout",
    "autograd.differentiate", "func.arguments", "func.reverse", "func.batching", "func.forward", "torch.sizes",
    "ir.values", "ir.program", "ir.placeholders", "ir.trace",
    "compiler.simplify", "compiler.fuse", "compiler.layout", "compiler.emit",
)  # fmt: skip

# What hands memory to generated loops, and has none of its own that take time.
LAUNCHES = tuple(
    f"backends.cpu.launch.{name}"
    for name in ("elementwise", "folds", "rows", "scans", "windows", "draws", "updates", "products")
)
# Loops over memory. Some give what NumPy's single steps would give, to the last bit. A distribution has them for every
# processor and again for newer ones, the levels of x86-64; what is built for one machine has them for its processor.
EXACT = (
    "backends.cpu.arithmetic", "backends.cpu.counts", "backends.cpu.loops", "backends.cpu.launch.gathers",
    "backends.cpu.launch.copies", "backends.cpu.launch.gammas", "backends.cpu.launch.positions", "backends.cpu.launch.classes",
    "backends.cpu.launch.searches", "backends.cpu.launch.sorting", "backends.cpu.nn.grid_loops", *LAUNCHES,
)  # fmt: skip
LOOPS = (
    *EXACT, "backends.cpu.thread_pool", "backends.cpu.gemm", "backends.cpu.launch.distances", "backends.cpu.rowwise", "backends.cpu.attention",
    "backends.cpu.recurrent", "backends.cpu.batch_norm", "backends.cpu.windows", "backends.cpu.implicit_gemm", "backends.cpu.csr",
    "backends.cpu.table_rows", "compiler.runtime",
)  # fmt: skip
# Best first, with what NumPy must find in a processor.
LEVELS = {"x86-64-v4": ("AVX512_SKX",), "x86-64-v3": ("AVX2", "FMA3")}
ANY = "any"  # the level that every processor of an architecture has
# Files of C types and functions that are no modules.
HEADERS = (
    "native",
    "backends.cpu.scalar_math",
    "backends.cpu.simd",
    "backends.cpu.microkernel",
    "backends.cpu.sliding_windows",
    "backends.cpu.launch.runs",
)

PACKAGE = os.path.dirname(os.path.abspath(__file__))
# LUCID_NATIVE names another folder of compiled modules, such as those that tools/build_native.py --sanitize builds.
FOLDER = os.path.abspath(os.environ.get("LUCID_NATIVE") or os.path.join(PACKAGE, "_native"))
PURE = os.environ.get("LUCID_PURE", "0") not in ("", "0")  # whether the user wants the sources as they are
# Stands beside the modules of one interpreter once all are there, and says from which sources and for which levels.
MARK = os.path.join(FOLDER, f"digest{EXTENSION_SUFFIXES[0]}.txt")


def _sources() -> list[str]:
    bases = [os.path.join(PACKAGE, *module.split(".")) for module in MODULES + LOOPS + HEADERS]
    return [base + suffix for base in bases for suffix in (".py", ".pyx", ".pxd")]


def digest() -> str:
    """A number that changes with the sources."""
    found = 0
    for name in _sources():
        try:
            with open(name, "rb") as file:
                found = crc32(file.read(), found)
        except FileNotFoundError:
            found = crc32(name[len(PACKAGE) :].encode(), found)
    return f"{found:08x}"


def stamp() -> str:
    """A number that changes when the sources are written: it is known without reading them."""
    found = 0
    for name in _sources():
        try:
            status = os.stat(name)
            found = crc32(b"%d %d" % (status.st_size, status.st_mtime_ns), found)
        except FileNotFoundError:
            found = crc32(b"missing", found)
    return f"{found:08x}"


def state() -> str:
    """The sources as they are now."""
    return f"{digest()} {stamp()}"


def mark(levels: Iterable[str], made_from: str | None = None) -> None:
    """Note to which state of the sources the compiled modules belong, the present one by default, and the levels of loops."""
    with open(MARK, "w") as file:
        file.write(" ".join([made_from or state(), *levels]))


def processor_levels() -> list[str]:
    """The levels that this processor has, best first."""
    found = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})
    return [*(level for level, features in LEVELS.items() if all(found.get(f) for f in features)), ANY]


def _usable() -> str | None:
    """The level of the loops to use, if what is compiled belongs to this interpreter and to the sources beside it."""
    if PURE:
        return None
    try:
        with open(MARK) as file:
            made_from, written, *levels = file.read().split()
    except (OSError, ValueError):
        return None
    if written != stamp():
        if made_from != digest():
            return None
        with suppress(OSError):  # a folder that others own
            mark(levels)
    return next((level for level in processor_levels() if level in levels), None)


level = _usable()
in_use = level is not None


def compiled_first(path: list[str], package: str) -> None:
    """Put the compiled modules of a subpackage before their sources on its search path."""
    if level is not None:
        path[:0] = [os.path.join(FOLDER, level, package)] * (level != ANY) + [os.path.join(FOLDER, package)]


# What compiled code has as functions of C: `native.pxd` declares them.
new_instance = object.__new__
current_frame = sys._getframe
PyFrame_GetCode, PyFrame_GetLasti = attrgetter("f_code"), attrgetter("f_lasti")
filename_of, caller_of = attrgetter("co_filename"), attrgetter("f_back")
attributes_of = all_attributes_of = attrgetter("__dict__")  # compiled, the first is None where there are none
PyObject_GenericSetAttr, PyObject_IS_GC = object.__setattr__, gc.is_tracked
# Compiled objects that refer to no other ones need not be on the lists of the garbage collector.
PyObject_GC_Track = ctypes.pythonapi.PyObject_GC_Track
PyObject_GC_UnTrack = ctypes.pythonapi.PyObject_GC_UnTrack
PyObject_GC_IsTracked = ctypes.pythonapi.PyObject_GC_IsTracked
PyObject_GC_IsTracked.argtypes = [ctypes.py_object]
for _function in (PyObject_GC_Track, PyObject_GC_UnTrack):
    _function.argtypes, _function.restype = [ctypes.py_object], None


def give_attributes(kind: type) -> None:
    """Let the objects of a class have attributes beside their fields; compiled ones have a last field with room for them."""


def set_all_attributes(o: Any, to: dict[str, Any]) -> None:
    """Replace all attributes of an object that are not its fields."""
    o.__dict__ = to


def PyObject_Call(function: Callable[..., Any], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`function(*args, **params)`, for which compiled code would copy the dictionary."""
    return function(*args, **params)


def framed(function: Callable[..., Any], operands: int | None = None) -> Callable[..., Any]:
    """A function of one, two or any operands, called from a frame of this package also in compiled code."""
    if not in_use:
        return function
    if operands is None:
        return lambda *args, **kwargs: function(*args, **kwargs)
    return (lambda x: function(x)) if operands == 1 else (lambda x, y: function(x, y))
