"""Compile the modules named in `lucid.native` into `lucid/_native`; see there what for.

    python tools/build_native.py [--if-possible] [--portable] [--sanitize] [--without-pack]

The loops are compiled for the processor at hand; with --portable, as for a distribution, for every one of the
architecture. With --sanitize the modules go to build/sanitized instead, with bounds checks and AddressSanitizer;
`make test-sanitize` uses them. Needs a C compiler, Cython and setuptools. What did not change since the last time is not
compiled again.

The pack of common kernels, which are generated, is built beside the modules where the package can be imported; with
--without-pack another call does it later.
"""

import compileall
import multiprocessing
import os
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from zlib import crc32

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent.parent
SANITIZED = ROOT / "build" / "sanitized"
WORK = ROOT / "build" / "native"
# Passes that take half of the compiler's time and find nothing in calls of Python's C API, and lines of C in tracebacks.
SHORTER = (
    "-fno-tree-pta", "-fno-tree-pre", "-fno-gcse", "-fno-tree-vrp", "-fno-tree-dominator-opts", "-fno-tree-vectorize",
    "-fno-schedule-insns2", "-fno-ipa-cp", "-fno-ipa-icf", "-fno-ipa-sra", "-DCYTHON_CLINE_IN_TRACEBACK=0",
)  # fmt: skip
# GCC orders instructions before it allocates registers on ARM, and not on x86: tiles of products would need one more than
# there are.
IN_ORDER = "-fno-schedule-insns"
# What runs once, when a module is imported, is not optimized.
ONCE = '-DCYTHON_SMALL_CODE=__attribute__((cold,optimize("O0")))'
# Packages whose calls are layers and steps, of many operations each: these are not slower with -O1, where single
# operations and transforms would be by a twentieth, and GCC takes less time. Clang inlines nothing at -O1.
OF_MANY = ("linalg", "nn", "optim", "torch")
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g1",
    "-O1",
]


def settings() -> SimpleNamespace:
    """What `lucid.native` says, without importing the package, which may have no dependencies here."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "lucid" / "native.py")))


def source(module: str) -> str:
    """The file that is compiled for a module."""
    base = f"lucid/{module.replace('.', '/')}"
    return base + ".pyx" if Path(base + ".pyx").exists() else base + ".py"


@cache
def accepted(options: tuple[str, ...], code: str = "int probe;") -> bool:
    """Whether the C compiler takes these options, which not every one knows, and this code."""
    from setuptools import Extension

    probe = WORK / "probe.c"
    probe.parent.mkdir(parents=True, exist_ok=True)
    probe.write_text(code + "\n")
    command = command_for(Extension("probe", [str(probe)]), options, WORK)
    command.force = True
    try:
        command.run()
    except Exception:
        return False
    return True


def is_gcc() -> bool:
    """Whether the compiler is GCC, which others say that they are too."""
    return accepted((), "#if !defined(__GNUC__) || defined(__clang__) || defined(__INTEL_COMPILER)\n#error\n#endif")


def flags(native: SimpleNamespace, module: str, sanitize: bool) -> list[str]:
    """What the C compiler is told for a module."""
    if os.name != "posix":
        return []
    found = ["-g0", "-w", *([ONCE] if is_gcc() else [])]
    if module in native.EXACT:
        found += ["-O2" if module in native.LAUNCHES else "-O3", "-fno-math-errno", "-ffp-contract=off"]
    elif module in native.LOOPS:  # as fast as memory; a loop with a call in it is not vectorized
        found += ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]
        found.append("-DCYTHON_INLINE=__inline__ __attribute__((__always_inline__))")
        found += [IN_ORDER] if is_gcc() else []
    else:
        found.append("-O1" if is_gcc() and module.split(".")[0] in OF_MANY else "-O2")
        found += SHORTER if accepted(SHORTER) else ()
    return [*found, *SANITIZERS] if sanitize else found


class Job(NamedTuple):
    """A module to compile: its options for each folder of machine code, where to work, and whether with checks."""

    module: str
    options: dict[str, list[str]]
    work: Path
    sanitize: bool


def translated(job: Job) -> Any:
    """A module in C: what setuptools calls an extension."""
    import numpy
    from Cython.Build import cythonize
    from setuptools import Extension

    # Annotations are for type checkers, except where a file asks for C types by them; tensors have their own pickling.
    # Comments with the lines of the source would only make the C code longer.
    directives = {"language_level": 3, "annotation_typing": False, "auto_pickle": False, "emit_code_comments": False}
    if job.sanitize:  # these come before what the files say
        directives |= {"boundscheck": True, "wraparound": True, "initializedcheck": True}
    extension = Extension(
        f"lucid.{job.module}",
        [source(job.module)],
        include_dirs=[numpy.get_include(), "."],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_link_args=SANITIZERS[:1] if job.sanitize else [],
    )
    settings = {"build_dir": str(job.work), "compiler_directives": directives, "include_path": ["."], "quiet": True}
    return cythonize([extension], **settings)[0]


def command_for(extension: Any, options: Sequence[str], work: Path) -> Any:
    """What compiles and links. Objects are named after their sources, so there is a folder for each set of options."""
    from setuptools import Distribution

    extension.extra_compile_args = list(options)
    command = Distribution({"name": "lucid", "ext_modules": [extension]}).get_command_obj("build_ext")
    folder = work / f"{crc32(repr(extension.extra_compile_args).encode()):08x}"
    command.build_lib, command.build_temp = str(folder), str(folder)
    command.ensure_finalized()
    return command


def built(job: Job) -> dict[Path, Path]:
    """Compile a module; returns the libraries by their places in the folder of machine code."""
    try:
        extension = translated(job)
        found = {}
        for folder, options in job.options.items():
            command = command_for(extension, options, job.work)
            command.run()
            library = Path(command.get_ext_fullpath(extension.name))
            found[Path(folder, *job.module.split(".")[:-1], library.name)] = library
        return found
    except Exception as error:  # errors of compilers do not pass between processes
        raise RuntimeError(f"{job.module}: {error}") from None


def known_levels(native: SimpleNamespace) -> list[str]:
    """The levels that the compiler knows, best first."""
    there = native.LEVELS if os.name == "posix" and platform.machine() in ("x86_64", "AMD64") else ()
    return [*(level for level in there if accepted((f"-march={level}",))), native.ANY]


def all_built(jobs: list[Job]) -> list[dict[Path, Path]]:
    """One process for each core, where processes can be forked: they share what is imported, which takes a second."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return [built(job) for job in jobs]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        return list(pool.map(built, jobs))


def compiled(native: SimpleNamespace, levels: list[str], sanitize: bool) -> dict[Path, Path]:
    """Run Cython and the C compiler; returns the libraries by their places in the folder of machine code."""
    from Cython.Compiler.Options import get_directive_defaults

    if not accepted(()):
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
        raise RuntimeError(f"there is no C compiler that works ({compiler})")
    # Freeing a chain of a million nodes must not recurse a million deep. Only decorators could say so for one class,
    # and those would need Cython where the sources run.
    get_directive_defaults()["trashcan"] = True
    work = SANITIZED / "work" if sanitize else WORK
    longest_first = sorted(native.MODULES + native.LOOPS, key=lambda m: Path(source(m)).stat().st_size, reverse=True)
    jobs = []
    for module in longest_first:
        options = flags(native, module, sanitize)
        newer = {level: [*options, f"-march={level}"] for level in levels if level != native.ANY}
        is_loop = module in native.LOOPS
        plain = {"": options} if native.ANY in levels or not is_loop else {}
        jobs.append(Job(module, {**plain, **newer} if is_loop else plain, work, sanitize))
    found = all_built(jobs)
    if "TRASHCAN_BEGIN" not in (work / "lucid" / "core" / "node.c").read_text():
        raise RuntimeError("this version of Cython would free long chains by recursion")
    return {place: library for libraries in found for place, library in libraries.items()}


def is_current(native: SimpleNamespace, portable: bool) -> bool:
    """Whether what was built belongs to the sources as they are and has the loops that are wanted."""
    try:
        made_from, _, *levels = Path(native.MARK).read_text().split()
    except (OSError, ValueError):
        return False
    wanted = known_levels(native) if portable else native.processor_levels()
    there = set(wanted).intersection(levels)
    return made_from == native.digest() and (len(there) == len(wanted) if portable else bool(there))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Another process that builds here, as for another environment, comes before or after: both write the same files."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        yield


@one_at_a_time()
def build(portable: bool = False, sanitize: bool = False) -> None:
    """Compile, put the libraries where the package looks for them, and mark them as complete."""
    if sanitize:
        os.environ["LUCID_NATIVE"] = str(SANITIZED / "modules")
    native = settings()
    if is_current(native, portable):
        return
    Path(native.MARK).unlink(missing_ok=True)
    made_from = native.state()  # sources that change meanwhile are compiled the next time
    levels = known_levels(native)
    if not portable:
        levels = [level for level in native.processor_levels() if level in levels][:1]
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        libraries = compiled(native, levels, sanitize)
    finally:
        os.chdir(before)
    for old in Path(native.FOLDER).rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        old.unlink()  # also modules that are compiled no longer, which would be found before their sources
    for place, library in libraries.items():
        home = Path(native.FOLDER) / place
        home.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, home)
    native.mark(levels, made_from)


def pack_sources() -> str:
    """A number that changes with what is generated: the code generator and the operations."""
    found = 0
    for folder in ("codegen", "kernels", "arguments", "ops", "api"):
        for path in sorted((ROOT / "lucid" / folder).rglob("*.py")):
            found = crc32(path.read_bytes(), found)
    return f"{found:08x}"


def build_pack() -> None:
    """Generate the common kernels for the levels of the compiled modules.

    A process of its own does it, which imports the package. Where that cannot be, kernels are compiled on first use.
    """
    native = settings()
    try:
        levels = Path(native.MARK).read_text().split()[2:]
    except OSError:
        return
    mark, current = Path(native.FOLDER) / "pack.txt", " ".join([pack_sources(), *levels])
    if mark.exists() and mark.read_text() == current:
        return
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    for level in levels:
        command = [sys.executable, "-m", "lucid.kernels.common", level]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it ended without a word"]
            print(f"there is no pack of common kernels, so each is compiled on its first use: {lines[-1]}")
            return
    mark.write_text(current)


def write_bytecode() -> None:
    """Imports read it. Where Python is told to write none (PYTHONDONTWRITEBYTECODE), they would take three times as long."""
    for package in ("lucid", "sorix"):
        compileall.compile_dir(ROOT / package, quiet=2)


def main(arguments: list[str]) -> int:
    try:
        build("--portable" in arguments, "--sanitize" in arguments)
    except (Exception, SystemExit) as error:
        if "--if-possible" not in arguments:
            raise
        print(f"not compiled, so the sources run as they are: {error}")
    write_bytecode()
    if not {"--sanitize", "--without-pack"}.intersection(arguments):
        build_pack()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
