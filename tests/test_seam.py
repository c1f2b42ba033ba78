"""The seam holds: above the backends nothing is computed, and no array is looked into. See seam.py.

On the sources: compiled functions have no frames, by which the test backend knows who asks.
"""

import numpy as np
import pytest
import seam
from checks import run_rules
from seam import RefusedError
from table import ROWS

import lucid
from lucid import native
from lucid.core import kernels
from lucid.core.primitive import Primitive, registry

pytestmark = pytest.mark.skipif(native.in_use, reason="who asks is known by the frames of the sources: LUCID_PURE=1")
MOST = 3  # samples of each row


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_op(row):
    """Values, both modes, their compositions and batches, on arrays that refuse everything beside kernels."""
    with np.errstate(all="ignore"), seam.installed():
        for dtype in ("float64",) * row.floats + ("complex128",) * row.complex or row.ints[:1]:
            run_rules(row, dtype, MOST)


@pytest.fixture
def backend():
    with seam.installed():
        yield


def test_writes_and_views(backend):
    x = lucid.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    y[0] = x[1] * 10
    y.t()[1:].mul_(3)
    y.add_(x)
    (y * y).sum().backward()
    assert x.grad.shape == (2, 2)
    z = x.detach().clone()
    z[:, 1] = 0
    z.t_().copy_(x.detach())
    assert z.tolist() == [[1, 2], [3, 4]]


def test_gradients_that_add_up(backend):
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for _ in range(2):
        (x * x + x[1:].sum() + x.reshape(3, 1).exp().sum()).sum().backward()
    x.grad.zero_()
    parts = [x[i] * i for i in range(3)]
    (first,) = lucid.autograd.grad(sum(parts), [x], create_graph=True)
    assert first.tolist() == [0, 1, 2]


def test_transforms_hooks_and_programs(backend):
    def f(x):
        y = x.clone()
        y[0] = x[1] ** 2
        return (y * x).sum()

    x = lucid.tensor([1.0, 2.0])
    func = lucid.func
    assert func.hessian(f)(x).shape == (2, 2)
    assert func.vmap(func.grad(f))(lucid.stack([x, x])).shape == (2, 2)
    func.jacfwd(func.grad(f))(x)
    func.make_graph(func.grad(f))(x)(x)
    w = lucid.tensor([1.0, 2.0], requires_grad=True)
    w.register_hook(lambda g: g * 2)
    with lucid.autograd.detect_anomaly():
        f(w).backward()
    assert w.grad.tolist() == [8, 4 * 4]


# --- the test itself can fail ---------------------------------------------------------------------


@pytest.fixture
def forget():
    yield
    for name in ("made_up",):
        registry.pop(name, None)
        kernels.table.pop(name, None)
        kernels.declared.pop(name, None)
        kernels.tables[kernels.REFERENCE].pop(name, None)


def declared_in_ops(source, **names):
    """What a piece of code would give if it stood in a file of `lucid.ops`."""
    found = dict(names)
    exec(compile(source, str(seam.PACKAGE / "ops" / "made_up.py"), "exec"), found)
    return found["f"]


RULES = {
    "a NumPy function": "f = lambda ct, x: wrap(np.cos(x._array))",
    "an operator": "f = lambda ct, x: wrap(ct._array * 2)",
    "a method": "f = lambda ct, x: wrap(ct._array.astype('float32'))",
    "elements": "f = lambda ct, x: ct * ct._array[0]",
    "NumPy's memory": "f = lambda ct, x: wrap(made)",
    "the owner of memory": "f = lambda ct, x: ct if x._array.base is None else -ct",
    "truth": "f = lambda ct, x: ct if x._array else -ct",
}


@pytest.mark.parametrize("what", RULES)
def test_rules_that_compute_are_noticed(what, forget):
    rule = declared_in_ops(RULES[what], np=np, wrap=lucid.Tensor._wrap, made=np.ones(2))
    kernels.fill({"made_up": np.sin})
    prim = Primitive("made_up", rules=(rule,))
    with seam.installed():
        x = lucid.tensor([1.0, 2.0], requires_grad=True)
        y = prim(x)
        with pytest.raises(RefusedError, match=r"ops/made_up\.py:1"):
            y.sum().backward()


def test_rules_in_terms_of_primitives_pass(forget):
    rule = declared_in_ops("f = lambda ct, x: ct * x.cos()")
    kernels.fill({"made_up": np.sin})
    prim = Primitive("made_up", rules=(rule,))
    with seam.installed():
        x = lucid.tensor([1.0, 2.0], requires_grad=True)
        prim(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]), 1e-6)


def test_numpy_above_the_seam_refuses_to_make_arrays():
    with seam.installed():
        limited = lucid.core.primitive.np
        make = declared_in_ops("f = lambda: np.zeros(3)", np=limited)
        with pytest.raises(RefusedError, match=r"np\.zeros"):
            make()
        assert limited.dtype("float32") == np.float32


def test_exceptions_are_needed():
    for name in seam.EXCEPTIONS:
        assert (seam.PACKAGE / name).exists(), name


def test_everything_is_put_back():
    before = dict(kernels.table), {name: prim.kernel for name, prim in registry.items()}
    with seam.installed():
        assert type(lucid.ones(2)._array) is seam.Opaque
    assert (dict(kernels.table), {name: prim.kernel for name, prim in registry.items()}) == before
    assert type(lucid.ones(2)._array) is np.ndarray
