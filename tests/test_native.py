"""The compiled modules: the same sources, used where they were built from exactly these, and never otherwise."""

import importlib
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid import native
from lucid.backends.cpu import loops

compiled = pytest.mark.skipif(not native.in_use, reason="the sources run as they are here")
PROGRAM = """
import lucid, lucid.native
x = lucid.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(lucid.native.in_use, x.grad.tolist())
"""


@pytest.fixture
def copy(tmp_path):
    """A place with the sources of the compiled modules and what was built from them."""
    if "LUCID_NATIVE" in os.environ:
        pytest.skip("what is built is somewhere else")
    for module in native.MODULES + native.LOOPS + native.HEADERS:
        for suffix in (".py", ".pyx", ".pxd"):
            source = Path(native.PACKAGE, *module.split(".")).with_suffix(suffix)
            if source.exists():
                target = tmp_path / source.relative_to(native.PACKAGE)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
    shutil.copy(Path(native.PACKAGE, "native.py"), tmp_path)
    if native.in_use:
        mark = tmp_path / Path(native.MARK).relative_to(native.PACKAGE)
        mark.parent.mkdir(parents=True)
        shutil.copy(native.MARK, mark)
    return tmp_path


def in_use(package):
    return runpy.run_path(str(package / "native.py"))["in_use"]


def output(**variables):
    root = Path(native.PACKAGE).parent
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **variables}, cwd=root, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_every_module_named_is_there():
    for module in native.MODULES + native.LOOPS:
        assert Path(native.PACKAGE, *module.split(".")).with_suffix(".py").exists()


def test_the_sources_alone_do_the_same():
    assert output(LUCID_PURE="1") == ["False", "[2.0,", "4.0]"]


def test_vectors_of_loops_are_no_wider_than_registers():
    """Compilers compute with wider ones in memory; `simd.pxd` knows how wide registers are.

    Bytes are only copied, and turned in squares by vectors of 16 bytes, or wider ones where AVX-512 is.
    """
    sources = [path for path in Path(native.PACKAGE).rglob("*.p[yx][xd]") if "vector_size" in path.read_text()]
    assert {path.name for path in sources} == {"simd.pxd", "runs.pxd", "copies.pyx"}


@compiled
def test_the_compiled_modules_are_used():
    assert output(LUCID_PURE="0")[0] == "True"
    for module in native.MODULES + native.LOOPS:
        assert importlib.import_module(f"lucid.{module}").__file__.startswith(native.FOLDER)


@compiled
def test_compiled_modules_of_other_sources_are_left_aside(copy):
    assert in_use(copy)
    with (copy / "tape" / "engine.py").open("a") as file:
        file.write("\n# changed\n")
    assert not in_use(copy)


@compiled
def test_sources_that_were_touched_are_read_once(copy):
    (mark,) = (copy / "_native").glob("digest*")
    before = mark.read_text()
    os.utime(copy / "tape" / "engine.py")
    assert in_use(copy)
    after = mark.read_text()
    assert after != before
    assert [after.split()[0], *after.split()[2:]] == [before.split()[0], *before.split()[2:]]
    source = copy / "tape" / "engine.py"
    source.write_text(source.read_text().replace("a", "b", 1))  # as long as before
    assert not in_use(copy)


@compiled
def test_a_layout_that_changed_counts_as_another_source(copy):
    (copy / "core" / "fields.pxd").write_text("")
    assert not in_use(copy)


@compiled
def test_loops_of_another_processor_are_left_aside(copy):
    (mark,) = (copy / "_native").glob("digest*")
    sources = mark.read_text().split()[:2]
    mark.write_text(" ".join([*sources, "x86-64-v99"]))
    assert not in_use(copy)
    mark.write_text(" ".join([*sources, "x86-64-v99", native.ANY]))
    assert in_use(copy)


def test_without_a_mark_nothing_is_used(copy):
    shutil.rmtree(copy / "_native", ignore_errors=True)
    assert not in_use(copy)


# NumPy's warnings are filtered by the frame they arise in, and compiled functions have none.
OVERFLOWING = {
    "binary": lambda x: x * x,
    "unary": lambda x: x.exp(),
    "by zero": lambda x: x / 0.0,
    "a number first": lambda x: 1e30 * x,
    "matmul": lambda x: x.reshape(2, 1, 1) @ x.reshape(1, 2, 1).mT,
    "matrices": lambda x: x.reshape(2, 1) @ x.reshape(1, 2),
    "vectors": lambda x: x @ x,
    "vector and matrix": lambda x: x @ x.reshape(2, 1),
    "rows": lambda x: lucid.einsum("ij,ij->i", x.reshape(2, 1), x.reshape(2, 1)),
    "outer": lambda x: lucid.outer(x, x),
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: x.abs().cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "linear": lambda x: lucid.nn.functional.linear(x[None], x[None], x[:1]),
    "a type in between": lambda x: x.half() * x,
    "backward": lambda x: lucid.autograd.grad((x.requires_grad_() ** 2 * 1e30).sum() * 1e30, x),
    "func.grad": lambda x: lucid.func.grad(lambda y: (y**2 * 1e30).sum() * 1e30)(x),
    "vmap": lambda x: lucid.func.vmap(lambda y: y * y)(x),
    "jvp": lambda x: lucid.func.jvp(lambda y: y * y, (x,), (x,)),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_overflow_gives_inf_without_a_warning(name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lucid\.")
        OVERFLOWING[name](lucid.tensor([3e38, -3e38]))
    assert not [str(w.message) for w in seen]


def test_numpy_itself_still_warns():
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.multiply(np.float32(3e38), np.float32(3e38))


# --- the loops in lucid.backends.cpu.loops --------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_loops_give_what_single_steps_of_numpy_give(kind):
    rng = np.random.default_rng(0)
    m, v, g, u = (rng.random(37).astype(kind) for _ in range(4))
    keep, weight, eps, rate = (np.asarray(c, kind) for c in (0.9, 0.1, 1e-3, 0.01))

    average, total = m.copy(), v.copy()
    loops.follow(average, g, weight, 0.0)
    np.testing.assert_array_equal(average, m + weight * (g - m))
    loops.accumulate_square(total, g, keep, weight, 0.0)
    np.testing.assert_array_equal(total, keep * v + weight * (g * g))
    loops.scale_by_root(m, v, eps, rate, u)
    np.testing.assert_array_equal(u, m / (np.sqrt(v) + eps) * rate)

    x, y = rng.random((3, 4)).astype(kind), rng.random((3, 5)).astype(kind)
    out = np.empty((3, 4, 5), kind)
    loops.stacked_outer(x, y, out)
    np.testing.assert_array_equal(out, x[:, :, None] * y[:, None, :])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_averages_of_optimizers_vanish_below_the_smallest_normal_number(kind):
    tiny = np.finfo(kind).tiny
    for start, want in ((tiny, 0), (-tiny, 0), (4 * tiny, 2 * tiny), (-4 * tiny, -2 * tiny), (np.nan, np.nan)):
        average, total = np.array([start], kind), np.array([abs(start)], kind)
        loops.follow(average, np.zeros(1, kind), 0.5, tiny)
        loops.accumulate_square(total, np.zeros(1, kind), 0.5, 0.5, tiny)
        np.testing.assert_array_equal(average, np.array([want], kind))
        np.testing.assert_array_equal(total, np.array([abs(want)], kind))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_the_loops_take_nothing(shape):
    out = np.empty((*shape, 2), np.float32)
    loops.stacked_outer(np.empty(shape, np.float32), np.empty((shape[0], 2), np.float32), out)
