"""Other types for the same memory, and other memory for the same tensor, inside transforms: as outside, or refused."""

import numpy as np
import pytest

import lucid
from lucid import autograd, func

D = lucid.float64
X = lucid.tensor([[1.0, -2.0, 3.0, 0.5], [4.0, 5.0, -6.0, 0.25]], dtype=D)
TYPES = [
    (lucid.float32, lucid.int32), (lucid.float64, lucid.int64), (lucid.float64, lucid.int32), (lucid.float64, lucid.float32),
    (lucid.float32, lucid.float64), (lucid.int8, lucid.int32), (lucid.int32, lucid.uint8), (lucid.float32, lucid.complex64),
    (lucid.complex128, lucid.float64), (lucid.float64, lucid.complex128), (lucid.float64, lucid.float64),
    (lucid.float16, lucid.int16), (lucid.bfloat16, lucid.int16),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), TYPES, ids=str)
def test_view_of_a_type(source, target):
    x = X.to(source)
    want = np.asarray(x.view(target))
    np.testing.assert_array_equal(func.vmap(lambda row: row.view(target))(x), want)
    np.testing.assert_array_equal(func.vmap(func.vmap(lambda row: row.view(target)))(x.reshape(1, 2, 4))[0], want)
    graph = func.make_graph(lambda z: z.view(target))(lucid.zeros_like(x))
    np.testing.assert_array_equal(graph(x), want)
    detached = (
        func.jvp(lambda z: (z * 1.0, z.detach().view(target)), (x,), (x,), has_aux=True)[2] if _is_real(x) else None
    )
    assert detached is None or np.array_equal(np.asarray(detached), want)


def _is_real(x):
    return x.dtype.is_floating_point


def test_sizes_that_do_not_fit_are_refused():
    for wrong in (
        lambda z: func.vmap(lambda row: row.view(lucid.complex128))(z[:, :3]),
        lambda z: z[:, :3].view(lucid.complex128),
    ):
        with pytest.raises(RuntimeError, match=r"view"):
            wrong(X)
    with pytest.raises(RuntimeError, match="without dimensions"):
        func.vmap(func.vmap(lambda number: number.view(lucid.int32)))(X)
    np.testing.assert_array_equal(func.vmap(func.vmap(lambda number: number.view(lucid.int64)))(X), X.view(lucid.int64))


def test_writes_to_bits_reach_the_tensor():
    def cleared(row):
        y = row.clone()
        y.view(lucid.int64).__setitem__(0, 0)
        return y

    want = np.asarray(X).copy()
    want[:, 0] = 0
    np.testing.assert_array_equal(func.vmap(cleared)(X), want)


@pytest.mark.parametrize("target", [lucid.int64, lucid.float32])
def test_bits_have_no_derivative(target):
    with pytest.raises(RuntimeError, match="detach"):
        X.clone().requires_grad_().view(target)
    with pytest.raises(RuntimeError, match="detach"):
        func.jvp(lambda z: z.view(target), (X,), (X,))
    with pytest.raises(RuntimeError, match="detach"):
        func.jvp(lambda z: func.vmap(lambda row: row.view(target))(z), (X,), (X,))
    with pytest.raises(RuntimeError, match="detach"):
        func.grad(lambda z: func.vmap(lambda row: row.view(target))(z).sum())(X)


def test_parts_of_complex_numbers_have_derivatives():
    def squares(z):
        return (z.view(lucid.complex128) ** 2).view(D)

    x = X.clone().requires_grad_()
    (taped,) = autograd.grad(squares(x), [x], X)
    np.testing.assert_array_equal(func.vjp(squares, X)[1](X)[0], taped)
    batched = func.vmap(lambda row: func.vjp(squares, row)[1](row)[0])(X)
    np.testing.assert_allclose(batched, taped, 1e-14)
    z = np.asarray(X).view(complex)
    np.testing.assert_allclose(func.jvp(squares, (X,), (X,))[1], (2 * z * z).view(float), 1e-14)
    assert autograd.gradcheck(squares, (x,))


def _given_data(make):
    def function(x):
        y = make(x)
        y.data = x * 3
        return y * x

    return function


def _set(make):
    def function(x):
        y = make(x)
        y.set_(x * 3)
        return y * x

    return function


MADE = {"a clone": lambda x: x.clone(), "a product": lambda x: x * 2}


@pytest.mark.parametrize("made", MADE)
def test_new_data_keeps_the_history(made):
    """The contents are those of the value, and the derivative is that of the tensor, as on the tape."""
    function, ones = _given_data(MADE[made]), lucid.ones_like(X)
    x = X.clone().requires_grad_()
    (taped,) = autograd.grad(function(x).sum(), [x])
    np.testing.assert_array_equal(func.vmap(function)(X), 3 * X * X)
    np.testing.assert_array_equal(func.grad(lambda z: function(z).sum())(X), taped)
    np.testing.assert_array_equal(func.vmap(func.grad(lambda z: function(z).sum()))(X), taped)
    value, tangent = func.jvp(function, (X,), (ones,))
    np.testing.assert_array_equal(value, 3 * X * X)
    np.testing.assert_array_equal(tangent, taped)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    "run",
    [
        lambda f: func.make_graph(f)(X),
        lambda f: func.grad(lambda z: func.vmap(f)(z).sum())(X),
        lambda f: func.jvp(func.vmap(f), (X,), (X,)),
        lambda f: func.vmap(lambda row: func.vmap(lambda number: f(number))(row))(X),
    ],
)
def test_new_data_is_right_or_refused(made, run):
    """Where another transform follows the tensors from further out, the derivatives would be mixed up."""
    with pytest.raises(RuntimeError, match="copy_"):
        run(_given_data(MADE[made]))


def test_new_data_of_another_transform_or_shape_is_refused():
    def of_two_levels(row):
        def inner(other):
            y = row.clone()
            y.data = other * 3
            return y

        return func.vmap(inner)(X)

    with pytest.raises(RuntimeError, match="transform"):
        func.vmap(of_two_levels)(X)
    for kind in (lambda f: func.jvp(f, (X[0],), (X[0],)), lambda f: func.grad(lambda z: f(z).sum())(X[0])):
        with pytest.raises(RuntimeError, match="shape"):
            kind(_given_data(lambda x: x[:2] * 1))
    with pytest.raises(TypeError, match="must be set to"):
        func.vmap(_given_data(lambda x: lucid.zeros(4, dtype=D)))(X)


@pytest.mark.parametrize("made", MADE)
def test_set_shows_the_source(made):
    """It has no history of its own to keep: contents and derivatives are those of the source, or it is refused."""
    function, ones = _set(MADE[made]), lucid.ones_like(X)
    np.testing.assert_array_equal(func.vmap(function)(X), 3 * X * X)
    for found in (func.jvp(function, (X,), (ones,)), func.jvp(func.vmap(function), (X,), (ones,))):
        np.testing.assert_array_equal(found[0], 3 * X * X)
        np.testing.assert_array_equal(found[1], 6 * X)
    np.testing.assert_array_equal(func.make_graph(function)(lucid.zeros_like(X))(X), 3 * X * X)
    for refused in (lambda: func.grad(lambda z: function(z).sum())(X), lambda: function(X.clone().requires_grad_())):
        with pytest.raises(RuntimeError, match="requires grad"):
            refused()
    with pytest.raises(RuntimeError, match="copy_"):
        func.vmap(_set(lambda x: lucid.zeros(4, dtype=D)))(X)


def test_set_inside_a_batch_on_the_tape():
    gradient = func.grad(lambda z: func.vmap(_set(MADE["a clone"]))(z).sum())(X)
    np.testing.assert_array_equal(gradient, 6 * X)
