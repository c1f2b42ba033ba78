"""Transforms leave no tensors behind: reference counting alone frees all that they made."""

import gc
import weakref

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.func import cond, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, make_graph, value_and_grad, vjp, vmap

A = np.array([0.5, -1.2, 2.0])
ROWS = np.stack([A, 2 * A, -A])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


class BoomError(Exception):
    pass


def boom(*args):
    raise BoomError


def watched(tensors, x):
    tensors.append(weakref.ref(x))
    return x


TRANSFORMS = {
    "vmap(grad)": lambda f: vmap(grad(f))(t(ROWS)),
    "grad(vmap)": lambda f: grad(lambda x: vmap(f)(x).sum())(t(ROWS)),
    "grad(grad)": lambda f: grad(lambda x: grad(f)(x).sum())(t(A)),
    "value_and_grad": lambda f: value_and_grad(f)(t(A)),
    "jvp(grad)": lambda f: jvp(grad(f), (t(A),), (t(A),)),
    "hessian": lambda f: hessian(f)(t(A)),
    "jacrev": lambda f: jacrev(f)(t(A)),
    "jacfwd": lambda f: jacfwd(f)(t(A)),
    "vmap(hessian)": lambda f: vmap(hessian(f))(t(ROWS)),
    "chunked": lambda f: vmap(grad(f), chunk_size=2)(t(ROWS)),
    "vjp": lambda f: vjp(f, t(A))[1](t(1.0)),
    "checkpoint": lambda f: vmap(grad(lambda x: autograd.checkpoint(f, x)))(t(ROWS)),
}
INSIDE = {
    "plain": lambda x: (x.sin() * x).sum(),
    "in place": lambda x: x.clone().mul_(x).add_(1.0).sum(),
    "views": lambda x: fill(x).sum(),
    "Function": lambda x: Square.apply(x).sum(),
    "custom_vjp": lambda x: square(x).sum(),
    "cond": lambda x: cond(x.sum() > 0, lambda y: y * y, lambda y: y.sin(), x).sum(),
}


def fill(x):
    y = lucid.zeros(3, dtype=lucid.float64)
    z = y[1:]
    y += x
    z *= x[1:].clone()
    return y


class Square(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * x
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return 2 * x * g


@custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_tensor_survives(name, inside):
    """Reference counting alone frees everything."""
    tensors = []
    TRANSFORMS[name](INSIDE[inside])  # what is made once stays
    gc.collect()
    gc.disable()
    try:
        result = TRANSFORMS[name](lambda x: watched(tensors, INSIDE[inside](watched(tensors, x) * 1.0)))
        del result
        alive = [r() for r in tensors if r() is not None]
        assert len(tensors) >= 2 and not alive
    finally:
        gc.enable()


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_garbage(name, inside):
    """Nothing is left for the garbage collector that holds a tensor."""
    for _ in range(2):
        TRANSFORMS[name](INSIDE[inside])
    gc.collect()
    gc.disable()
    before = sum(issubclass(type(o), lucid.Tensor) for o in gc.get_objects())
    try:
        for _ in range(3):
            TRANSFORMS[name](INSIDE[inside])
        after = sum(issubclass(type(o), lucid.Tensor) for o in gc.get_objects())
        assert after <= before
    finally:
        gc.enable()


def test_a_program_frees_its_trace():
    tensors = []
    gc.collect()
    gc.disable()
    try:
        program = make_graph(lambda x: watched(tensors, x * 2).sin())(t(A))
        alive = [r for r in tensors if r() is not None]
        assert not alive
        program(t(A))
        ref = weakref.ref(program)
        del program
        assert ref() is None
    finally:
        gc.enable()


def test_an_exception_frees_too():
    tensors = []
    gc.collect()
    gc.disable()
    try:
        try:
            vmap(grad(lambda x: boom(watched(tensors, x * 2))))(t(ROWS))
        except BoomError:
            alive = True
        assert alive
        assert not [r for r in tensors if r() is not None]
    finally:
        gc.enable()
