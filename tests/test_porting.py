"""Programs for other libraries run under the front doors, and give what they give where those are installed."""

import importlib.util
import warnings

import numpy as np
import pytest
from porting import autograd_style, idioms, jax_style, mathematics, models, research, sparsity, training, vision

import lucid.jax
import lucid.numpy
import lucid.torch

PROGRAMS = [
    program
    for module in (training, mathematics, sparsity, vision, idioms, models, research)
    for program in module.PROGRAMS
]
HAS_TORCH, HAS_JAX, HAS_AUTOGRAD = (importlib.util.find_spec(n) is not None for n in ("torch", "jax", "autograd"))


def assert_same(found, wanted, rtol=1e-6, atol=1e-8):
    assert found.keys() == wanted.keys()
    for name, want in wanted.items():
        if isinstance(want, str) or (isinstance(want, list) and want and isinstance(want[0], str)):
            assert found[name] == want, name
        else:
            np.testing.assert_allclose(found[name], want, rtol=rtol, atol=atol, err_msg=name)


def assert_sound(found):
    assert found and all(np.all(np.isfinite(v)) for v in found.values() if np.asarray(v).dtype.kind in "fiu")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    found = program(lucid.torch)
    assert_sound(found)
    if HAS_TORCH:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's about itself
            wanted = program(torch)
        assert_same(found, wanted)


@pytest.mark.parametrize("program", jax_style.PROGRAMS, ids=lambda p: p.__name__)
def test_program_for_jax(program):
    found = program(lucid.jax)
    assert_sound(found)
    if HAS_JAX:
        import jax

        assert_same(found, program(jax), rtol=2e-4, atol=2e-5)  # single precision


@pytest.mark.parametrize("program", autograd_style.PROGRAMS, ids=lambda p: p.__name__)
def test_program_for_autograd(program):
    found = program(lucid.numpy, lucid.numpy)
    assert_sound(found)
    if HAS_AUTOGRAD:
        import autograd
        import autograd.numpy

        assert_same(found, program(autograd.numpy, autograd))


def test_a_difference_is_noticed():
    found = mathematics.tensors(lucid.torch)
    with pytest.raises(AssertionError):
        assert_same({**found, "norm": found["norm"] + 1e-3}, found)
