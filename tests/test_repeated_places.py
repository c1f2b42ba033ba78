"""Several values for one place: the last in row-major order stays, whatever the layout of memory, and has the gradient.

NumPy assigns in the order in which index arrays and values lie in memory, so that the last one written differs between
arrays with equal elements.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import lucid
from lucid import autograd, func
from lucid.nn import functional

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "upside down": lambda a: a[::-1].copy()[::-1],
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "columns backwards": lambda a: np.asfortranarray(a[::-1])[::-1],
}
RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.integers(0, 3, (2, 5, 6))
SOURCE = 1.0 + np.arange(30.0).reshape(5, 6)


def zeros(*shape: int) -> lucid.Tensor:
    return lucid.zeros(*shape, dtype=lucid.float64)


def assigned(target: lucid.Tensor, key: Any, source: lucid.Tensor) -> lucid.Tensor:
    target[key] = source
    return target


# Functions of positions, other positions and values.
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scatter": lambda i, j, s: lucid.scatter(zeros(3, 6), 0, i, s),
    "scatter along rows": lambda i, j, s: lucid.scatter(zeros(5, 3), 1, i, s),
    "scatter_": lambda i, j, s: zeros(3, 6).scatter_(0, i, s),
    "put": lambda i, j, s: zeros(10).put(i, s),
    "put_": lambda i, j, s: zeros(10).put_(i, s),
    "index_put": lambda i, j, s: lucid.index_put(zeros(10), (i,), s),
    "index_put_": lambda i, j, s: zeros(10).index_put_((i,), s),
    "index_put of two": lambda i, j, s: lucid.index_put(zeros(3, 3), (i, j), s),
    "index_put of a grid": lambda i, j, s: lucid.index_put(zeros(3, 3), (i[:, :1], j[:1]), s),
    "index_put of slices": lambda i, j, s: lucid.index_put(zeros(3, 6), (i[:, 0],), s),
    "setitem": lambda i, j, s: assigned(zeros(3, 3), (i, j), s),
    "setitem behind a slice": lambda i, j, s: assigned(zeros(1, 3, 3), (slice(None), i, j), s.reshape(1, 5, 6)),
    "setitem of slices": lambda i, j, s: assigned(zeros(3, 6), i[:, 0], s),
    "index_copy": lambda i, j, s: lucid.index_copy(zeros(3, 6), 0, i[:, 0], s),
    "index_copy of columns": lambda i, j, s: lucid.index_copy(zeros(5, 3), 1, i[0], s),
    "index_copy_": lambda i, j, s: zeros(3, 6).index_copy_(0, i[:, 0], s),
    "max_unpool1d": lambda i, j, s: functional.max_unpool1d(s.reshape(1, 5, 6), i.reshape(1, 5, 6), 2),
    "max_unpool2d": lambda i, j, s: functional.max_unpool2d(s.reshape(1, 1, 5, 6), i.reshape(1, 1, 5, 6), 2),
    "max_unpool3d": lambda i, j, s: functional.max_unpool3d(s.reshape(1, 1, 1, 5, 6), i.reshape(1, 1, 1, 5, 6), 2),
    "vmap of scatter": lambda i, j, s: func.vmap(lambda a, b: lucid.scatter(zeros(3), 0, a, b))(i, s),
    "vmap of index_put": lambda i, j, s: func.vmap(lambda a, b: lucid.index_put(zeros(3), (a,), b), 1)(i, s),
}


@pytest.mark.parametrize("name", WRITES)
def test_the_last_value_stays_and_has_the_gradient(name):
    write = WRITES[name]
    want = np.asarray(write(*map(lucid.tensor, (FIRST, SECOND, SOURCE))))
    for one, other, third in product(LAYOUTS.values(), repeat=3):
        i, j, s = lucid.from_numpy(one(FIRST)), lucid.from_numpy(other(SECOND)), lucid.from_numpy(third(SOURCE))
        leaf = s.detach().requires_grad_()
        out = write(i, j, leaf)
        np.testing.assert_array_equal(np.asarray(out.detach()), want)
        (gradient,) = autograd.grad(out, [leaf], lucid.ones_like(out))
        # All values differ, so that those in the result say which elements it consists of.
        np.testing.assert_array_equal(np.asarray(gradient), np.isin(SOURCE, want))
        tangent = lucid.from_numpy(other(2 * SOURCE))
        _, change = func.jvp(lambda v, i=i, j=j: write(i, j, v), (s,), (tangent,))
        np.testing.assert_array_equal(np.asarray(change), 2 * want)


def test_row_major_order_decides():
    i = np.asfortranarray([[0, 1], [1, 0]])
    x = lucid.index_put(zeros(2), (lucid.from_numpy(i),), lucid.from_numpy(np.asfortranarray([[1.0, 2.0], [3.0, 4.0]])))
    assert x.tolist() == [4.0, 3.0]
