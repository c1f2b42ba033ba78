"""Views that were taken before what they show got a history: whatever is done with them, gradients arrive.

The table of operations checks the same of every operation; here are the ways by which functions of others look at tensors.
"""

import pytest

import lucid
from lucid import func, nn
from lucid.nn import functional as F
from lucid.utils.checkpoint import checkpoint
from lucid.utils.data import default_collate


class Product(lucid.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, ct):
        x, y = ctx.saved_tensors
        return ct * 2 * x * y, ct * x * x


OTHER = [0.5, 1.0, 2.0]
LAYER = nn.Linear(3, 1)


def written(out, index, value):
    out[index] = value
    return out


CALLS = {
    "function": lambda v, c: Product.apply(v, c) + Product.apply(c, v),
    "checkpoint": lambda v, c: checkpoint(lambda x: (x * x).sin(), v, use_reentrant=False),
    "reentrant checkpoint": lambda v, c: checkpoint(lambda x: (x * x).sin(), v, use_reentrant=True),
    "compiled": lambda v, c: lucid.compile(lambda x: (x * x).sum())(v),
    "vmap": lambda v, c: func.vmap(lambda x: x * x)(v),
    "vmap of a closure": lambda v, c: func.vmap(lambda x: x * v)(c),
    "vmap of a function": lambda v, c: func.vmap(lambda x: Product.apply(x, v))(c),
    "grad": lambda v, c: func.grad(lambda x: (x**3).sum())(v),
    "grad of a closure": lambda v, c: func.grad(lambda x: (x**2 * v * v).sum())(c),
    "vmap of grad": lambda v, c: func.vmap(func.grad(lambda x: x**3))(v),
    "grad of vmap": lambda v, c: func.grad(lambda x: func.vmap(lambda y: y**3)(x).sum())(v),
    "vjp": lambda v, c: func.vjp(lambda x: x**3, v)[1](c)[0],
    "cotangent": lambda v, c: func.vjp(lambda x: x**3, c)[1](v)[0],
    "aux": lambda v, c: func.vjp(lambda x: (x**2, v), c, has_aux=True)[2],
    "jvp": lambda v, c: func.jvp(lambda x: x**3, (v,), (c,))[1],
    "tangent": lambda v, c: func.jvp(lambda x: x**3, (c,), (v,))[1],
    "jvp of vjp": lambda v, c: func.jvp(lambda x: func.vjp(lambda y: y**3, x)[1](c)[0], (v,), (c,))[1],
    "linearize": lambda v, c: func.linearize(lambda x: x**3, v)[1](c),
    "jacrev": lambda v, c: func.jacrev(lambda x: x**3)(v),
    "jacfwd": lambda v, c: func.jacfwd(lambda x: x**3)(v),
    "hessian": lambda v, c: func.hessian(lambda x: (x**3).sum())(v),
    "parameters": lambda v, c: func.functional_call(LAYER, {"weight": v.reshape(1, 3)}, (lucid.ones(2, 3),)),
    "written": lambda v, c: written(lucid.zeros(5), slice(0, 3), v),
    "written everywhere": lambda v, c: written(lucid.zeros(3), ..., v) * written(lucid.zeros(3), slice(None), v),
    "in place": lambda v, c: lucid.ones(3).mul_(v).addcmul_(v, c),
    "parts": lambda v, c: v.unbind()[0] * v.split(1)[1] * v.chunk(3)[2],
    "iterated": lambda v, c: sum(x * x for x in v),
    "batched": lambda v, c: default_collate([v, v]),
    "hooked": lambda v, c: (v.register_hook(lambda g: 2 * g), v * v)[1],
    "points": lambda v, c: lucid.linspace(v[0], v[1], 5),
    "normalized": lambda v, c: F.layer_norm(v, (3,), c) ** 2 + F.layer_norm(c, (3,), v, v),
    "statistics": lambda v, c: v.std() + v.median() + v.quantile(0.3) + sum(lucid.var_mean(v)),
    "distribution": lambda v, c: lucid.distributions.Normal(v, 1.0).log_prob(c),
}


def leaf():
    return lucid.tensor([1.0, 2.0, 3.5], requires_grad=True)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_arrive(name):
    call, c, x, w = CALLS[name], lucid.tensor(OTHER), leaf(), leaf()
    base = lucid.zeros(3)
    view = base[:]
    base.add_(w)
    (want,) = lucid.autograd.grad(call(x * 1, c).sum(), [x])
    (got,) = lucid.autograd.grad(call(view, c).sum(), [w])
    assert want.any() and lucid.allclose(got, want, rtol=1e-4), (got, want)


def test_a_program_sees_that_what_it_captured_got_a_history():
    base, w = lucid.zeros(3), leaf()
    view = base[:]
    f = lucid.compile(lambda x: (x * view).sum())
    x = lucid.tensor(OTHER)
    assert not f(x).requires_grad
    assert not f(x).requires_grad
    base.add_(w)
    assert lucid.equal(lucid.autograd.grad(f(x), [w])[0], x)
