"""Functions that a library computes run in threads on large arrays, and give the same numbers."""

from functools import partial

import numpy as np
import pytest

import lucid
from lucid.codegen.bodies import WRITTEN
from lucid.core import kernels
from lucid.core.primitive import P

CALLS = {"gamma": {}, "airy_ai": {"by": 0}, "bessel_y": {"order": 1, "by": 0}}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_nothing(name, dtype):
    x = np.random.default_rng(0).uniform(-0.99, 0.99, (301, 203)).astype(dtype)
    primitive, params = getattr(P, name), CALLS[name]
    assert name not in WRITTEN  # which has loops of its own
    expected, call = kernels.reference(primitive)(x, **params), partial(kernels.resolved(primitive), **params)
    assert np.array_equal(call(x), expected, equal_nan=True)
    assert np.array_equal(call(x.T), expected.T, equal_nan=True)
    assert np.array_equal(call(x[::2]), expected[::2], equal_nan=True)
    before = lucid.get_num_threads()
    lucid.set_num_threads(1)
    assert np.array_equal(call(x), expected, equal_nan=True)
    lucid.set_num_threads(before)


def test_parameters_are_handed_on():
    x = np.random.default_rng(0).uniform(0.5, 3, 50_000)
    assert np.array_equal(kernels.resolved(P.polygamma)(x, order=2), kernels.reference(P.polygamma)(x, order=2))
