"""Programs in PyTorch's style run under `lucid.torch`, and give what PyTorch gives where it is installed."""

import importlib.util
import warnings

import numpy as np
import pytest
from porting import mathematics, training

import lucid.torch

PROGRAMS = training.PROGRAMS + mathematics.PROGRAMS
HAS_TORCH = importlib.util.find_spec("torch") is not None


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, want in wanted.items():
        if isinstance(want, str) or (isinstance(want, list) and want and isinstance(want[0], str)):
            assert found[name] == want, name
        else:
            np.testing.assert_allclose(found[name], want, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    found = program(lucid.torch)
    assert found and all(np.all(np.isfinite(v)) for v in found.values() if np.asarray(v).dtype.kind in "fiu")
    if HAS_TORCH:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's about itself
            wanted = program(torch)
        assert_same(found, wanted)


def test_a_difference_is_noticed():
    found = mathematics.tensors(lucid.torch)
    with pytest.raises(AssertionError):
        assert_same({**found, "norm": found["norm"] + 1e-3}, found)
