"""Compile the modules named in `lucid.native` into `lucid/_native`; see there what for.

    python tools/build_native.py [--if-possible] [--sanitize]

With --sanitize they go to build/sanitized instead, with bounds checks and AddressSanitizer; `make test-sanitize` uses
them. Needs a C compiler, Cython and setuptools. What did not change since the last time is not compiled again.
"""

import os
import platform
import runpy
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
SANITIZED = ROOT / "build" / "sanitized"
WORK = ROOT / "build" / "native"
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


def compiled(native: SimpleNamespace, sanitize: bool) -> dict[str, Path]:
    """Run Cython and the C compiler; returns the libraries by the module's place in the folder of machine code."""
    import numpy
    from Cython.Build import cythonize
    from Cython.Compiler.Options import get_directive_defaults
    from setuptools import Distribution, Extension

    options = ["-O2", "-g0", "-w"] if os.name == "posix" else []
    # Loops as fast as memory. Some give the results that NumPy's single steps would give, to the last bit.
    vectorized = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"] if options else []
    if vectorized:  # a loop with a call in it is not vectorized
        vectorized.append("-DCYTHON_INLINE=__inline__ __attribute__((__always_inline__))")
    exact = ["-O3", "-fno-math-errno", "-ffp-contract=off"] if options else []
    if sanitize:
        options, vectorized, exact = [*options, *SANITIZERS], [*vectorized, *SANITIZERS], [*exact, *SANITIZERS]
    flags = {m: [*options, *(exact if m in native.EXACT else vectorized)] for m in native.LOOPS}
    macros = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
    settings = {"include_dirs": [numpy.get_include(), "."], "define_macros": macros}
    if sanitize:
        settings["extra_link_args"] = SANITIZERS[:1]
    work = SANITIZED / "work" if sanitize else WORK
    extensions = [
        Extension(f"lucid.{m}", [source(m)], extra_compile_args=flags.get(m, options), **settings)
        for m in native.MODULES + native.LOOPS
    ]
    # Annotations are for type checkers, except where a file asks for C types by them; tensors have their own pickling.
    directives = {"language_level": 3, "annotation_typing": False, "auto_pickle": False}
    if sanitize:  # these come before what the files say
        directives |= {"boundscheck": True, "wraparound": True, "initializedcheck": True}
    # Freeing a chain of a million nodes must not recurse a million deep. Only decorators could say so for one class,
    # and those would need Cython where the sources run.
    get_directive_defaults()["trashcan"] = True
    extensions = cythonize(
        extensions,
        build_dir=str(work),
        compiler_directives=directives,
        include_path=["."],
        quiet=True,
        force=not (work / "lib").exists(),
    )
    if "TRASHCAN_BEGIN" not in (work / "lucid" / "core" / "node.c").read_text():
        raise RuntimeError("this version of Cython would free long chains by recursion")
    levels = {"": extensions}
    if options and platform.machine() in ("x86_64", "AMD64"):
        # Sanitized modules run where they are compiled, and there only the best level does.
        best = Path(native._level()).name
        for level in (level for level in native.LEVELS if not sanitize or level == best):
            levels[level] = [
                Extension(
                    f"lucid.{level}.{m}",
                    [str(work / "lucid" / f"{m.replace('.', '/')}.c")],
                    extra_compile_args=[*flags[m], f"-march={level}"],
                    optional=True,  # older compilers do not know the levels
                    **settings,
                )
                for m in native.LOOPS
            ]
    libraries = {}
    for level, group in levels.items():
        command = Distribution({"name": "lucid", "ext_modules": group}).get_command_obj("build_ext")
        # Objects are named after their sources, which are the same for every level.
        command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp" / level)
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        for extension in group:  # what cannot be compiled again must not stay
            built, source_file = Path(command.get_ext_fullpath(extension.name)), Path(extension.sources[0])
            if built.exists() and built.stat().st_mtime < source_file.stat().st_mtime:
                built.unlink()
        command.run()
        libraries |= {e.name.removeprefix("lucid."): Path(command.get_ext_fullpath(e.name)) for e in group}
    return libraries


def build(sanitize: bool = False) -> None:
    """Compile, put the libraries where the package looks for them, and mark them as complete."""
    if sanitize:
        os.environ["LUCID_NATIVE"] = str(SANITIZED / "modules")
    native = settings()
    mark = Path(native.MARK)
    if mark.is_file() and mark.read_text().split()[:1] == [native.digest()]:
        return
    mark.unlink(missing_ok=True)
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        libraries = compiled(native, sanitize)
    finally:
        os.chdir(before)
    for old in Path(native.FOLDER).rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        old.unlink()  # also modules that are compiled no longer, which would be found before their sources
    for place, library in libraries.items():
        if not library.exists():
            continue
        home = Path(native.FOLDER) / Path(*place.split(".")[:-1])
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, home / library.name)
    native.mark()


def main(arguments: list[str]) -> int:
    try:
        build("--sanitize" in arguments)
    except (Exception, SystemExit) as error:
        if "--if-possible" not in arguments:
            raise
        print(f"not compiled, so the sources run as they are: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
