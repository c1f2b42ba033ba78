"""Programs instruction by instruction, and as machine code."""

import numpy as np

import lucid
from lucid.autograd import no_grad
from lucid.compiler.executable import Executable
from lucid.core import tree
from lucid.func import make_graph


def values(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(shape) * 3
    if dtype == "complex64":
        numbers = numbers + 1j * rng.standard_normal(shape)
    return lucid.tensor(numbers).to(getattr(lucid, dtype))


def both(function, *args):
    """What a program gives instruction by instruction, and as machine code; and its executable."""
    program = make_graph(function)(*args)
    inputs = [x for x in tree.flatten((args, {}))[0] if isinstance(x, lucid.Tensor)]
    captured = [t for _, t in program.captured]
    with no_grad():
        want = program.run(inputs, captured)
    executable = Executable(program)
    return want, executable.run(inputs, captured), executable


def assert_same(want, got, exactly=True):
    for w, g in zip(want, got, strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        if exactly:
            np.testing.assert_array_equal(g.numpy(), w.numpy())
        else:
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-5, atol=1e-5)
