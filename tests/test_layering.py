"""The architecture as the design states it: imports run one way, files stay short, imports stay light."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lucid"
FILES = sorted(PACKAGE.rglob("*.py"))

# The rooms of the package, each of which imports only those before it. Imports inside functions count too, and so do
# the names of modules in strings, by which they are loaded on first use. The table of names (api/names.py) is read by
# the rooms whose names it has.
ROOMS = (
    "native forks core kinds tape arguments ops codegen backends ir api autograd func compiler debug distributed linalg fft special signal masked einops distributions sparse amp nn optim data checkpoints "
    "serialization dtypes utils kernels tree profiler interop array_api numpy jax torch"
).split()
# These are built on the public package.
USERS = "nn optim data checkpoints amp utils masked einops signal distributions sparse array_api interop kernels numpy jax torch".split()


def name(path):
    return str(path.relative_to(ROOT))


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


@functools.cache
def imports(path, for_checkers=False):
    """Every module that a file imports, anywhere in it; those for type checkers only if asked."""
    found = []
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    frontier = [tree(path)]
    while frontier:
        node = frontier.pop()
        if is_type_checking(node) and not for_checkers:
            frontier.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found += [(a.name, node.lineno) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(p for p in (base, node.module or "") if p)
            found += [(f"{module}.{a.name}", node.lineno) for a in node.names]
        frontier.extend(ast.iter_child_nodes(node))
    return found


def layer(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "lucid" and len(parts) > 1 else None


@functools.cache
def named(path):
    """Every module that a file names in a string."""
    strings = (n for n in ast.walk(tree(path)) if isinstance(n, ast.Constant))
    return [
        (n.value, n.lineno) for n in strings if isinstance(n.value, str) and re.fullmatch(r"lucid(\.\w+)+", n.value)
    ]


def room(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


INSIDE = [p for p in FILES if p.name != "__init__.py" or p.parent != PACKAGE]


def test_imports_run_one_way():
    wrong = [
        f"{name(path)}:{line} imports {module}"
        for path in INSIDE
        for module, line in imports(path) + named(path)
        if layer(module) in ROOMS[ROOMS.index(room(path)) + 1 :]
    ]
    assert wrong == []


def dotted(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_circle_of_imports():
    modules = {dotted(path): path for path in INSIDE}
    left = {}
    for module, path in modules.items():
        found = {m if m in modules else m.rpartition(".")[0] for m, _ in imports(path, for_checkers=True)}
        found |= {m for m, _ in named(path) if path.name != "names.py"}  # which only says where names are
        left[module] = (found & modules.keys()) - {module}
    while ends := {module for module, needed in left.items() if not needed & left.keys()}:
        left = {module: needed for module, needed in left.items() if module not in ends}
    assert left == {}


def test_no_file_imports_the_public_package():
    inner = [p for p in INSIDE if room(p) not in USERS]
    assert [f"{name(p)}:{line}" for p in inner for module, line in imports(p) if module == "lucid"] == []


def test_files_stay_short():
    files = FILES + sorted((ROOT / "sorix").rglob("*.py"))
    assert [name(p) for p in files if len(p.read_text().splitlines()) >= 700] == []


def test_files_say_what_they_hold():
    assert [name(p) for p in FILES if tree(p).body and not ast.get_docstring(tree(p))] == []


def loaded_by(statement):
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("heavy", ["scipy", "torch", "numpy.random", "cupy", "llvmlite", "jax", "hypothesis", "pytest"])
def test_import_stays_light(heavy):
    found = loaded_by("import lucid")
    assert not [m for m in found if m == heavy or m.startswith(heavy + ".")]


def test_import_of_lucid_adds_few_modules_beside_numpy():
    extra = loaded_by("import numpy, ml_dtypes; before = set(sys.modules); import lucid")
    foreign = {m.split(".")[0] for m in extra} - set(sys.stdlib_module_names) - {"lucid", "numpy", "ml_dtypes"}
    # Compiled modules make a module of that name, which is nowhere on disk.
    assert {m for m in foreign if not m.startswith("_")} <= {"cython_runtime"}


def test_each_module_can_be_imported_first():
    modules = [dotted(p) for p in FILES]
    optional = [
        m
        for m in modules
        if m.startswith(
            (
                "lucid.core",
                "lucid.kinds",
                "lucid.tape",
                "lucid.backends",
                "lucid.ops",
                "lucid.api",
                "lucid.autograd",
                "lucid.func",
            )
        )
    ]
    code = (
        "import sys, importlib\n"
        f"for m in {optional!r}:\n"
        "    for k in [k for k in sys.modules if k.split('.')[0] == 'lucid']: del sys.modules[k]\n"
        "    importlib.import_module(m)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
