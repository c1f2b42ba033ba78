"""Functions that a library computes run in threads on large arrays, and give the same numbers."""

import numpy as np
import pytest

import lucid
from lucid.core import kernels
from lucid.core.primitive import P


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_nothing(name, dtype):
    x = np.random.default_rng(0).uniform(-0.99, 0.99, (301, 203)).astype(dtype)
    primitive = getattr(P, name)
    expected = kernels.reference(primitive)(x)
    assert np.array_equal(kernels.resolved(primitive)(x), expected)
    assert np.array_equal(kernels.resolved(primitive)(x.T), expected.T)
    assert np.array_equal(kernels.resolved(primitive)(x[::2]), expected[::2])
    before = lucid.get_num_threads()
    lucid.set_num_threads(1)
    assert np.array_equal(kernels.resolved(primitive)(x), expected)
    lucid.set_num_threads(before)


def test_parameters_are_handed_on():
    x = np.random.default_rng(0).uniform(0.5, 3, 50_000)
    assert np.array_equal(kernels.resolved(P.polygamma)(x, order=2), kernels.reference(P.polygamma)(x, order=2))
