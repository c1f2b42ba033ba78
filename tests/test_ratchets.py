"""Counts of what is to become less: none may grow, and what has fallen stays down."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "lucid"
# What the design keeps free of computing, and of the question which library holds an array.
ABOVE_THE_KERNELS = ("core", "kinds", "tape", "arguments", "ops", "ir", "api", "autograd", "func")

# Ways around the general path of `core.primitive.apply`, for speed: functions and classes, or whole files.
SHORTCUTS = {
    "ops/categories.py": ("LinearMap",),
    # Where nothing is recorded, arrays go from kernel to kernel, and functions of elements are one loop.
    "ops/rules.py": ("is_array",),
    "ops/one_loop.py": None,
    "api/reductions.py": ("extremes", "in_steps", "shown", "std_over", "mean_over"),
    "api/sorting.py": ("_median",),
    "nn/functional/vision.py": ("_rearranged",),
}


def modules(*rooms):
    """The files of folders and of those below them."""
    return [path for room in rooms for path in (PACKAGE / room).rglob("*.py")]


def matches(pattern, *rooms):
    return sum(len(re.findall(pattern, path.read_text())) for path in modules(*rooms))


def lines_of(path, names):
    if names is None:
        return len(path.read_text().splitlines())
    found = [n for n in ast.parse(path.read_text()).body if getattr(n, "name", None) in names]
    assert len(found) == len(names), f"{path}: not all of {names} are there"
    return sum(n.end_lineno - n.lineno + 1 for n in found)


def widest_room():
    """The most modules in one folder: the .py, .pyx and .pxd files of a module are one, and headers count too."""
    found = {}
    for path in PACKAGE.rglob("*.p*"):
        if path.suffix in (".py", ".pyx", ".pxd") and path.stem != "__init__" and "_native" not in path.parts:
            found.setdefault(path.parent, set()).add(path.stem)
    return max(map(len, found.values()))


MEASURES = {
    "lines of short-cuts": (lambda: sum(lines_of(PACKAGE / f, n) for f, n in SHORTCUTS.items()), 166),
    "questions whether something is a NumPy array": (lambda: matches(r"\bndarray\b", *ABOVE_THE_KERNELS), 83),
    "questions whether something is exactly a Tensor": (
        lambda: matches(r"type\(\w+\) is (?:not )?Tensor\b", *ABOVE_THE_KERNELS, "nn", "interop"),
        8,
    ),
    "modules in one folder": (widest_room, 25),
    "lines of the machine": (
        lambda: sum(len(p.read_text().splitlines()) for p in modules("core", "kinds", "tape")),
        5019,
    ),
}


@pytest.mark.parametrize("what", MEASURES)
def test_only_falls(what):
    measure, most = MEASURES[what]
    found = measure()
    assert found <= most, f"{found} {what}: at most {most} were there before"
    assert found >= 0.97 * most, f"{found} {what}: fewer than {most}, so make that the number in this file"
