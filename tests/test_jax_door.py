"""`lucid.jax`: JAX's names and conventions; what JAX gives is compared where it is installed."""

import importlib.util
import inspect
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.ndimage
import scipy.special
import scipy.stats

import lucid
import lucid.jax as ljax
import lucid.jax.numpy as jnp

HAS_JAX = importlib.util.find_spec("jax") is not None
RANDOM = np.random.RandomState(0)
A = RANDOM.uniform(0.2, 1.8, (3, 4)).astype(np.float32)
B = RANDOM.uniform(0.2, 1.8, (4, 3)).astype(np.float32)
V = RANDOM.uniform(0.2, 1.8, 5).astype(np.float32)
I = np.array([2, 0, 1], np.int32)
IMAGE = RANDOM.randn(2, 7, 7, 3).astype(np.float32)
KERNEL = RANDOM.randn(3, 3, 3, 4).astype(np.float32)
S = (RANDOM.randn(4, 4) + 4 * np.eye(4)).astype(np.float32)

# Calls as a program writes them, each a function of `jax` and arrays.
CALLS = {
    "creation": (lambda jax: [jax.numpy.zeros(3), jax.numpy.arange(4), jax.numpy.eye(2), jax.numpy.full((2,), 3)],),
    "types": (lambda jax, x: [jax.numpy.array([1, 2]), x.astype(int), jax.numpy.float32(2), jax.numpy.sum(x > 1)], A),
    "promotion": (
        lambda jax, x, i: [x * i, i / 2, i * 2.5, x + 1, i + True, jax.numpy.mean(i), x * np.float64(2)],
        A[:, :3],
        I,
    ),
    "set": (lambda jax, x: [x.at[0].set(5.0), x.at[:, 1].add(2.0), x.at[1, 2].mul(3.0), x.at[0].min(0.5)], A),
    "scatter": (
        lambda jax, x, i: [x.at[i].add(1.0), x.at[i, i].max(1.0), x.at[jax.numpy.array([0, 0])].add(1.0)],
        A,
        I,
    ),
    "drop": (
        lambda jax, x: [x.at[jax.numpy.array([0, 7])].set(9.0, mode="drop"), x.at[7].get(mode="fill", fill_value=0.0)],
        V,
    ),
    "where": (lambda jax, x: [jax.numpy.where(x > 1, x, 0.0), jax.numpy.where(x > 1, 1.0, 2.0)], A),
    "nonzero": (
        lambda jax, x: [*jax.numpy.nonzero(x > 1, size=9, fill_value=-1), jax.numpy.argwhere(x > 1.2, size=2)],
        A,
    ),
    "take": (lambda jax, x, i: [jax.numpy.take(x, i, axis=0), jax.numpy.take(x, i + 2, axis=0, mode="clip")], A, I),
    "vectorize": (lambda jax, x, y: jax.numpy.vectorize(jax.numpy.dot, signature="(n),(n)->()")(x, y.T), A, B),
    "unique": (lambda jax, i: [jax.numpy.unique(i), jax.numpy.unique(i, size=5, fill_value=-1)], I),
    "bincount": (lambda jax, i: [jax.numpy.bincount(i, length=5), jax.numpy.bincount(i)], I),
    "einsum": (lambda jax, x, y: jax.numpy.einsum("ij,jk->ik", x, y, precision="highest"), A, B),
    "sorting": (lambda jax, x: [jax.numpy.sort(x), x.sort(0), jax.numpy.argsort(x), *jax.lax.top_k(x, 2)], A),
    "linalg": (lambda jax, s: [jax.numpy.linalg.inv(s), jax.numpy.linalg.norm(s), jax.numpy.linalg.slogdet(s)[1]], S),
    "fft": (lambda jax, x: [jax.numpy.fft.fft(x), jax.numpy.fft.rfft(x)], V),
    "methods": (
        lambda jax, x: [x.sum(axis=0), x.mean(), x.T, x.reshape(-1), x.transpose(1, 0), x.argmax(1), x.std()],
        A,
    ),
    "scipy.linalg": (
        lambda jax, s: [
            jax.scipy.linalg.cholesky(s @ s.T, lower=True),
            jax.scipy.linalg.expm(s / 4),
            jax.scipy.linalg.block_diag(s, s),
            jax.scipy.linalg.solve_triangular(s, s[0], trans=1),
            jax.scipy.linalg.solve(s, s[0]),
        ],
        S,
    ),
    "scipy.special": (
        lambda jax, x: [
            jax.scipy.special.gammaln(x),
            jax.scipy.special.expit(x),
            jax.scipy.special.logsumexp(x, axis=1),
            jax.scipy.special.logsumexp(x, axis=0, b=x),
            jax.scipy.special.ndtri(x / 2),
            jax.scipy.special.xlogy(x, x),
            jax.scipy.special.betainc(x, x, x / 2),
            jax.scipy.special.i0e(x),
            jax.scipy.special.polygamma(1, x),
        ],
        A,
    ),
    "scipy.stats": (
        lambda jax, x: [
            jax.scipy.stats.norm.logpdf(x, 1.0, 2.0),
            jax.scipy.stats.gamma.logpdf(x, 2.0),
            jax.scipy.stats.beta.pdf(x, 2.0, 3.0),
            jax.scipy.stats.norm.logcdf(x),
            jax.scipy.stats.t.logpdf(x, 3.0),
            jax.scipy.stats.expon.logpdf(x - 1),
            jax.scipy.stats.poisson.logpmf(3, x),
            jax.scipy.stats.bernoulli.logpmf(1, x / 2),
            jax.scipy.stats.multivariate_normal.logpdf(x[0], jax.numpy.zeros(4), jax.numpy.eye(4)),
        ],
        A,
    ),
    "activations": (
        lambda jax, x: [
            getattr(jax.nn, name)(x - 1)
            for name in (
                "relu relu6 sigmoid silu gelu elu selu celu softplus log_sigmoid soft_sign leaky_relu hard_tanh mish "
                "hard_sigmoid hard_silu squareplus sparse_plus softmax log_softmax glu standardize logsumexp identity"
            ).split()
        ],
        A,
    ),
    "softmax over some": (lambda jax, x: [jax.nn.softmax(x, axis=0, where=x > 0.5), jax.nn.softmax(x, axis=(0, 1))], A),
    "one_hot": (lambda jax, i: [jax.nn.one_hot(i, 3), jax.nn.one_hot(i, 2, dtype=np.int32, axis=0)], I),
    "attention": (
        lambda jax, x: [jax.nn.dot_product_attention(x, x, x), jax.nn.dot_product_attention(x, x, x, is_causal=True)],
        RANDOM.randn(2, 5, 2, 4).astype(np.float32),
    ),
    "lax elements": (
        lambda jax, x: [
            jax.lax.exp(x),
            jax.lax.rsqrt(x),
            jax.lax.erf(x),
            jax.lax.logistic(x),
            jax.lax.max(x, x * 0 + 1),
            jax.lax.integer_pow(x, 3),
            jax.lax.sub(x, x),
            jax.lax.div(x, x),
            jax.lax.lgamma(x),
            jax.lax.tan(x),
            jax.lax.pow(x, x),
            jax.lax.atan2(x, x),
            jax.lax.is_finite(x),
            jax.lax.neg(x),
            jax.lax.round(x),
            jax.lax.log1p(x),
            jax.lax.clamp(0.5, x, 1.0),
        ],
        A,
    ),
    "lax integers": (
        lambda jax, i: [
            jax.lax.div(-i * 7, i * 0 + 3),
            jax.lax.rem(-i * 7, i * 0 + 3),
            jax.lax.bitwise_and(i, i * 0 + 1),
        ],
        I,
    ),
    "lax shapes": (
        lambda jax, x: [
            jax.lax.broadcast(x, (2,)),
            jax.lax.broadcast_in_dim(x[0], (3, 4), (1,)),
            jax.lax.rev(x, (0, 1)),
            jax.lax.expand_dims(x, (0, 2)),
            jax.lax.squeeze(x[:1], (0,)),
            jax.lax.transpose(x, (1, 0)),
            jax.lax.pad(x, 0.0, ((1, -1, 2), (0, 3, 1))),
            jax.lax.concatenate([x, x], 0),
            jax.lax.iota(np.int32, 3),
            jax.lax.broadcasted_iota(np.int32, (2, 3), 1),
            jax.lax.reshape(x, (4, 3)),
            jax.lax.full_like(x, 2.0),
            jax.lax.slice(x, (0, 1), (2, 4), (1, 2)),
            jax.lax.slice_in_dim(x, 1, 3, axis=1),
            jax.lax.index_in_dim(x, 1),
        ],
        A,
    ),
    "dynamic slices": (
        lambda jax, x, i: [
            jax.lax.dynamic_slice(x, (i[0], i[2]), (2, 2)),
            jax.lax.dynamic_slice_in_dim(x, i[0] + 9, 2, axis=1),
            jax.lax.dynamic_update_slice(x, x[:2, :2], (i[2], i[0])),
            jax.lax.dynamic_index_in_dim(x, i[2], 1, keepdims=False),
            jax.lax.dynamic_update_slice_in_dim(x, x[:1], i[2], 0),
            jax.lax.dynamic_update_index_in_dim(x, x[0], i[0], 0),
        ],
        A,
        I,
    ),
    "lax folds": (
        lambda jax, x: [
            jax.lax.reduce(x, 0.0, jax.lax.add, (1,)),
            jax.lax.reduce(x, 1.0, lambda a, b: a * b, (0, 1)),
            jax.lax.cumsum(x, 1),
            jax.lax.cumprod(x, 0, reverse=True),
            jax.lax.cummax(x, 1),
            jax.lax.cumlogsumexp(x, 0),
            jax.lax.argmax(x, 1, np.int32),
            jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (1, 2), "SAME"),
            jax.lax.reduce_window(x, -np.inf, jax.lax.max, (2, 2), (1, 1), "VALID"),
        ],
        A,
    ),
    "lax sort": (
        lambda jax, x, i: [
            *jax.lax.sort((i, x[:, 0])),
            *jax.lax.sort((i // 2, i, x[:, 1]), num_keys=2),
            jax.lax.sort(x, 0),
        ],
        A,
        I,
    ),
    "dot_general": (
        lambda jax, x: [
            jax.lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))),
            jax.lax.dot_general(x, x, (((0, 1), (0, 1)), ((), ()))),
        ],
        RANDOM.randn(2, 3, 4).astype(np.float32),
    ),
    "convolutions": (
        lambda jax, x, k: (
            [
                jax.lax.conv_general_dilated(x, k, (2, 1), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
                for pad in ("SAME", "VALID", ((1, 2), (0, 1)))
            ]
            + [
                jax.lax.conv_general_dilated(
                    x,
                    k,
                    (1, 1),
                    ((2, 2), (1, 1)),
                    lhs_dilation=(2, 2),
                    rhs_dilation=(1, 2),
                    dimension_numbers=("NHWC", "HWIO", "NCHW"),
                ),
                jax.lax.conv_general_dilated(
                    x,
                    k[:, :, :1, :3],
                    (1, 1),
                    "SAME",
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                    feature_group_count=3,
                ),
                jax.lax.conv_transpose(x, k, (2, 2), "SAME"),
                jax.lax.conv_transpose(x, k, (2, 3), "VALID"),
                jax.lax.conv(x.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), (1, 1), "SAME"),
            ]
        ),
        IMAGE,
        KERNEL,
    ),
    "control": (
        lambda jax, x: [
            *jax.lax.scan(lambda c, v: (c + v, c * v), 0.0, x),
            jax.lax.fori_loop(0, 5, lambda i, c: c * x + i, x),
            jax.lax.cond(x[0] > 1, lambda v: v, lambda v: -v, x),
            jax.lax.switch(2, [lambda: 1.0, lambda: 2.0, lambda: 3.0]),
            jax.lax.while_loop(lambda c: c < 50, lambda c: c * 3, 1),
            jax.lax.map(lambda v: v**2, x),
            jax.lax.associative_scan(jax.numpy.add, x),
            jax.lax.associative_scan(jax.numpy.multiply, x, reverse=True),
        ],
        V,
    ),
    "collectives": (
        lambda jax, x: [
            jax.vmap(f, axis_name="i")(x)
            for f in (
                lambda v: jax.lax.psum(v, "i"),
                lambda v: jax.lax.pmean(v, "i"),
                lambda v: jax.lax.pmax(v, "i"),
                lambda v: jax.lax.all_gather(v, "i"),
                lambda v: jax.lax.axis_index("i") * v,
                lambda v: jax.lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 0)]),
                jax.grad(lambda v: jax.lax.psum(v**2, "i").sum()),
                lambda v: jax.jvp(lambda w: jax.lax.psum(w**2, "i"), (v,), (v,))[1],
            )
        ],
        A,
    ),
    "vmap": (
        lambda jax, x, y: [
            jax.vmap(jax.numpy.dot, in_axes=(0, 1))(x, y),
            jax.vmap(lambda v: v, out_axes=1)(x),
            jax.vmap(lambda v, k=None: v + k)(x, k=x),
            jax.vmap(lambda d: d["a"] * d["b"], in_axes=({"a": 0, "b": None},))({"a": x, "b": 2.0}),
            jax.vmap(lambda: jax.numpy.ones(2), axis_size=3)(),
            jax.vmap(jax.vmap(lambda a, b: a * b, (None, 0)), (0, None))(x[0], y[0]),
        ],
        A,
        B,
    ),
    "derivatives": (
        lambda jax, x: [
            jax.grad(lambda v: jax.numpy.sum(v**3))(x),
            *jax.value_and_grad(lambda a, b: a * b, argnums=(0, 1))(2.0, 3.0)[1],
            jax.jacfwd(jax.numpy.sin)(x),
            jax.jacrev(lambda v: v**2)(x),
            jax.hessian(lambda v: jax.numpy.sum(v**3))(x),
            jax.vjp(jax.numpy.sin, x)[1](x)[0],
            jax.jvp(jax.numpy.sin, (x,), (x,))[1],
            jax.linearize(jax.numpy.sin, x)[1](x),
            jax.grad(jax.checkpoint(lambda v: jax.numpy.sum(jax.numpy.sin(v))))(x),
            jax.linear_transpose(lambda v: v * 3, x)(x)[0],
            jax.grad(lambda z: z**2, holomorphic=True)(2.0 + 1j),
        ],
        V,
    ),
    "segments": (
        lambda jax, x, i: [
            jax.ops.segment_sum(x, i // 2, 4),
            jax.ops.segment_max(x, i, 3),
            jax.ops.segment_min(x, i // 2, 3),
            jax.ops.segment_prod(x, i, 3),
        ],
        A,
        I,
    ),
    "trees": (
        lambda jax, x: [
            *jax.tree.leaves(jax.tree.map(lambda a, b: a + b, {"p": x, "q": (x, None)}, {"p": x, "q": (x, None)})),
            jax.flatten_util.ravel_pytree({"a": x, "b": x[:2]})[0],
            jax.tree_util.tree_reduce(lambda a, b: a + b.sum(), [x, x], 0.0),
        ],
        V,
    ),
}


def leaves(result):
    return [np.asarray(leaf) for leaf in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    call, *arrays = CALLS[name]
    found = call(ljax, *(jnp.asarray(a) for a in arrays))
    assert all(type(f) is ljax.Array for f in (found if isinstance(found, list) else [found]))
    if not HAS_JAX:
        return
    import jax
    import jax.flatten_util

    wanted = call(jax, *(jax.numpy.asarray(a) for a in arrays))
    for k, (f, w) in enumerate(zip(leaves(found), leaves(wanted), strict=True)):
        np.testing.assert_allclose(f, w, rtol=3e-5, atol=3e-5, err_msg=str(k))
        assert f.shape == w.shape and f.dtype == w.dtype, k


JITTED = sorted(
    CALLS.keys()
    - {
        "creation",
        "unique",
        "bincount",
        "scipy.stats",
        "drop",
        "nonzero",
        "trees",
        "derivatives",
        "types",
        "collectives",
    }
)


@pytest.mark.parametrize("name", JITTED)
def test_calls_under_jit(name):
    call, *arrays = CALLS[name]
    given = [jnp.asarray(a) for a in arrays]
    for f, w in zip(leaves(ljax.jit(partial(call, ljax))(*given)), leaves(call(ljax, *given)), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5)


def test_updates_have_gradients():
    with ljax.enable_x64():
        x, v, i = jnp.asarray(A.astype(float)), jnp.asarray(V[:4].astype(float)), jnp.array([0, 2, 0])
        for f in (
            lambda x, v: x.at[0].set(v),
            lambda x, v: x.at[i].add(v),
            lambda x, v: x.at[i, 1].multiply(v[:3]),
            lambda x, v: x.at[i].max(v),
            lambda x, v: x.at[:, 1].min(v[:3]),
            lambda x, v: x.at[i].divide(v),
            lambda x, v: x.at[1].power(v),
            lambda x, v: x.at[jnp.array([1, 9])].add(v, mode="drop"),
            lambda x, v: x.at[jnp.array([1, 9])].get(mode="fill", fill_value=0.0) * v,
            lambda x, v: ljax.lax.dynamic_update_slice(x, v[None, :2], (i[1], i[0])),
            lambda x, v: ljax.lax.dynamic_slice(x, (i[1], i[0]), (2, 3)),
            lambda x, v: x.at[2].apply(jnp.sin),
        ):
            assert x.dtype == np.float64
            with lucid.jax.arrays.DOOR.inside():
                lucid.autograd.gradcheck(
                    lambda x, v, f=f: f(jnp.asarray(x), jnp.asarray(v)), (x.requires_grad_(), v.requires_grad_())
                )
            batched = ljax.vmap(f)(jnp.stack([x, 2 * x]), jnp.stack([v, 3 * v]))
            np.testing.assert_allclose(batched[1], f(2 * x, 3 * v), rtol=1e-12)


class TestArrays:
    def test_are_immutable(self):
        x = jnp.arange(3.0)
        with pytest.raises(TypeError, match=r"x.at\[idx\].set\(y\)"):
            x[0] = 1.0
        y = x
        y += 1
        assert x.tolist() == [0, 1, 2] and y.tolist() == [1, 2, 3]
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[0] = 1.0

        def writes(v):
            v[0] = 1.0

        for transform in (
            ljax.vmap,
            lambda f: lambda v: ljax.jvp(f, (v[0],), (v[0],)),
            lambda f: lambda v: ljax.grad(f)(v[0]),
        ):
            with pytest.raises(TypeError, match="immutable"):
                transform(writes)(jnp.ones((2, 2)))

    def test_own_their_memory(self):
        array = np.zeros(3, np.float32)
        x, y = jnp.asarray(array), ljax.device_put(array)
        array[0] = 5
        assert x[0] == 0 and y[0] == 0

    def test_attributes(self):
        x = jnp.ones((2, 3))
        assert x.size == 6 and x.dtype == jnp.float32 and x.block_until_ready() is x and x.ndim == 2
        assert repr(x[0]) == "Array([1., 1., 1.], dtype=float32)" and str(x[0]) == "[1. 1. 1.]"
        assert isinstance(x, ljax.Array) and isinstance(x, jnp.ndarray) and x.devices() == {ljax.devices()[0]}
        assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
        with pytest.raises(TypeError, match=r"jax\.numpy\.array"):
            ljax.Array([1.0])
        seen = ljax.vmap(lambda v: (v.at[0].set(v.size), v)[0])(x)
        assert seen.tolist() == [[3, 1, 1]] * 2

    def test_64_bits_on_demand(self):
        assert jnp.array([1.0]).dtype == np.float32 and jnp.arange(3).dtype == np.int32
        assert jnp.asarray(np.ones(2)).dtype == np.float32 and jnp.zeros(2, dtype=np.float64).dtype == np.float32
        with ljax.enable_x64():
            assert jnp.array([1.0]).dtype == np.float64 and jnp.arange(3).dtype == np.int64
        ljax.config.update("jax_enable_x64", True)
        try:
            assert jnp.ones(2).dtype == np.float64 and ljax.config.jax_enable_x64
        finally:
            ljax.config.update("jax_enable_x64", False)


# A draw and the distribution function it follows.
FOLLOWS = {
    "normal": (lambda r, k, n: r.normal(k, (n,)), scipy.stats.norm.cdf),
    "uniform": (lambda r, k, n: r.uniform(k, (n,), minval=2.0, maxval=5.0), scipy.stats.uniform(2, 3).cdf),
    "gumbel": (lambda r, k, n: r.gumbel(k, (n,)), scipy.stats.gumbel_r.cdf),
    "exponential": (lambda r, k, n: r.exponential(k, (n,)), scipy.stats.expon.cdf),
    "laplace": (lambda r, k, n: r.laplace(k, (n,)), scipy.stats.laplace.cdf),
    "logistic": (lambda r, k, n: r.logistic(k, (n,)), scipy.stats.logistic.cdf),
    "cauchy": (lambda r, k, n: r.cauchy(k, (n,)), scipy.stats.cauchy.cdf),
    "truncated_normal": (lambda r, k, n: r.truncated_normal(k, -1.0, 2.0, (n,)), scipy.stats.truncnorm(-1, 2).cdf),
    "gamma": (lambda r, k, n: r.gamma(k, 2.5, (n,)), scipy.stats.gamma(2.5).cdf),
    "beta": (lambda r, k, n: r.beta(k, 2.0, 3.0, (n,)), scipy.stats.beta(2, 3).cdf),
    "t": (lambda r, k, n: r.t(k, 4.0, (n,)), scipy.stats.t(4).cdf),
    "chisquare": (lambda r, k, n: r.chisquare(k, 3.0, (n,)), scipy.stats.chi2(3).cdf),
    "pareto": (lambda r, k, n: r.pareto(k, 3.0, (n,)), scipy.stats.pareto(3).cdf),
    "lognormal": (lambda r, k, n: r.lognormal(k, 0.5, (n,)), scipy.stats.lognorm(0.5).cdf),
    "maxwell": (lambda r, k, n: r.maxwell(k, (n,)), scipy.stats.maxwell.cdf),
    "triangular": (lambda r, k, n: r.triangular(k, 0.0, 1.0, 3.0, (n,)), scipy.stats.triang(1 / 3, 0, 3).cdf),
    "loggamma": (lambda r, k, n: r.loggamma(k, 2.5, (n,)), scipy.stats.loggamma(2.5).cdf),
    "rayleigh": (lambda r, k, n: r.rayleigh(k, 2.0, (n,)), scipy.stats.rayleigh(scale=2).cdf),
    "weibull": (lambda r, k, n: r.weibull_min(k, 2.0, 1.5, (n,)), scipy.stats.weibull_min(1.5, scale=2).cdf),
    "multivariate": (
        lambda r, k, n: r.multivariate_normal(k, jnp.ones(2), jnp.array([[4.0, 1.0], [1.0, 2.0]]), (n,))[:, 0],
        scipy.stats.norm(1, 2).cdf,
    ),
    "dirichlet": (lambda r, k, n: r.dirichlet(k, jnp.array([2.0, 3.0]), (n,))[:, 0], scipy.stats.beta(2, 3).cdf),
    "ball": (lambda r, k, n: jnp.linalg.norm(r.ball(k, 2, shape=(n,)), axis=-1) ** 2, scipy.stats.uniform.cdf),
}


class TestRandom:
    def test_is_a_function_of_the_key(self):
        key = ljax.random.PRNGKey(3)
        a, b = ljax.random.split(key)
        for draw in (ljax.random.normal, ljax.random.uniform, ljax.random.gumbel, ljax.random.bits):
            assert (draw(a, (4,)) == draw(a, (4,))).all()
            assert not (draw(a, (4,)) == draw(b, (4,))).any()
        assert not (ljax.random.fold_in(key, 1) == ljax.random.fold_in(key, 2)).all()
        assert len({tuple(k.tolist()) for k in ljax.random.split(key, 1000)}) == 1000

    @pytest.mark.parametrize(
        "draw",
        [
            lambda k: ljax.random.normal(k, (3,)),
            lambda k: ljax.random.split(k, 3),
            lambda k: ljax.random.permutation(k, 5),
            lambda k: ljax.random.categorical(k, jnp.zeros(4), shape=(3,)),
            lambda k: ljax.random.choice(k, jnp.arange(5.0), (2,), replace=False),
            lambda k: ljax.random.randint(k, (3,), 0, 10),
            lambda k: ljax.random.truncated_normal(k, -1.0, 1.0, (3,)),
            lambda k: ljax.random.fold_in(k, 3),
        ],
    )
    def test_keys_in_a_batch(self, draw):
        keys = ljax.random.split(ljax.random.key(0), 4)
        found = ljax.vmap(draw)(keys)
        jitted = ljax.jit(draw)
        for k, row in zip(keys, found, strict=True):
            assert (row == draw(k)).all() and (row == jitted(k)).all()

    @pytest.mark.parametrize("name", FOLLOWS)
    def test_distributions(self, name):
        draw, cdf = FOLLOWS[name]
        found = np.asarray(draw(ljax.random, ljax.random.key(1), 4000))
        assert scipy.stats.kstest(found, cdf).pvalue > 1e-3

    def test_counts(self):
        key, n = ljax.random.key(2), 20000
        assert np.asarray(ljax.random.bernoulli(key, 0.3, (n,))).mean() == pytest.approx(0.3, abs=0.02)
        numbers = np.asarray(ljax.random.randint(key, (n,), 3, 7))
        assert scipy.stats.chisquare(np.bincount(numbers - 3)).pvalue > 1e-3
        p = np.array([0.1, 0.2, 0.7])
        for drawn in (
            ljax.random.categorical(key, jnp.log(p), shape=(n,)),
            ljax.random.choice(key, 3, (n,), p=jnp.asarray(p)),
        ):
            assert scipy.stats.chisquare(np.bincount(np.asarray(drawn)), p * n).pvalue > 1e-3
        assert np.asarray(ljax.random.poisson(key, 3.5, (n,))).mean() == pytest.approx(3.5, abs=0.1)
        assert np.asarray(ljax.random.geometric(key, 0.25, (n,))).mean() == pytest.approx(4.0, abs=0.15)
        assert set(np.asarray(ljax.random.rademacher(key, (100,))).tolist()) == {-1, 1}
        q = ljax.random.orthogonal(key, 4)
        np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)
        order = ljax.random.permutation(key, jnp.arange(8).reshape(4, 2))
        assert sorted(order[:, 0].tolist()) == [0, 2, 4, 6]
        assert sorted(ljax.random.choice(key, 6, (6,), replace=False).tolist()) == list(range(6))

    def test_reparametrised_gradients(self):
        key = ljax.random.key(0)
        slope = ljax.grad(lambda a: ljax.random.gamma(key, a, (2000,)).mean())(3.0)
        assert float(slope) == pytest.approx(1.0, abs=0.1)
        assert ljax.grad(lambda m: ljax.random.uniform(key, (5,), minval=m, maxval=1.0).sum())(0.0) > 0

    def test_a_wrong_key_is_noticed(self):
        with pytest.raises(TypeError, match="vmap"):
            ljax.random.normal(ljax.random.split(ljax.random.key(0)), (2,))

    def test_initializers(self):
        key, init = ljax.random.key(0), ljax.nn.initializers
        for name, std in (
            ("lecun_normal", 0.1),
            ("he_normal", 2**0.5 * 0.1),
            ("glorot_uniform", 0.1),
            ("he_uniform", 2**0.5 * 0.1),
        ):
            weights = np.asarray(getattr(init, name)()(key, (100, 100)))
            assert weights.std() == pytest.approx(std, rel=0.05), name
        assert init.zeros(key, (2,)).tolist() == [0, 0] and init.constant(3.0)(key, (1,)).tolist() == [3]
        w = init.orthogonal()(key, (3, 5))
        np.testing.assert_allclose(w @ w.T, np.eye(3), atol=1e-5)


class TestTransforms:
    def test_jit(self):
        calls = []

        @partial(ljax.jit, static_argnums=(1,), static_argnames=("flag",), donate_argnums=(0,))
        def f(x, n, flag=False):
            calls.append((type(n), flag))
            return x**n if flag else {"sum": x.sum(), "n": n}

        assert f(jnp.ones(3), 2)["sum"] == 3 and f(jnp.ones(3), 2)["n"] == 2
        assert f(2.0, 3, flag=True) == 8
        assert calls[0] == (int, False) and f.__name__ == "f"
        assert float(ljax.grad(ljax.jit(lambda x: x**3))(2.0)) == 12
        assert ljax.vmap(ljax.jit(lambda x: x.at[0].set(x.size)))(jnp.zeros((2, 3))).tolist() == [[3, 0, 0]] * 2

    def test_shapes(self):
        found = ljax.eval_shape(lambda a, b: {"x": a @ b}, jnp.ones((2, 3)), ljax.ShapeDtypeStruct((3, 4), np.float32))
        assert found == {"x": ljax.ShapeDtypeStruct((2, 4), np.float32)}
        assert "mul" in str(ljax.make_jaxpr(lambda x: x * x)(1.0))

    def test_errors(self):
        with pytest.raises(TypeError, match="dtype"):
            ljax.grad(lambda x: x * 2.0)(3)
        with pytest.raises(NameError, match="axis_name"):
            ljax.lax.psum(1.0, "i")
        with pytest.raises(AttributeError, match="one device"):
            ljax.pmap  # noqa: B018  (it raises)
        with pytest.raises(ValueError, match="available: cpu"):
            ljax.config.update("jax_platforms", "tpu")
        with pytest.raises(RuntimeError, match="CPU"):
            ljax.devices("gpu")
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            ljax.numpy.nonsense  # noqa: B018  (it raises)

    def test_rules(self):
        @partial(ljax.custom_jvp, nondiff_argnums=(0,))
        def apply(f, x):
            return f(x)

        @apply.defjvp
        def _(f, primals, tangents):
            return f(primals[0]), 7.0 * tangents[0]

        assert ljax.grad(lambda x: apply(jnp.sin, x))(1.0) == 7
        assert ljax.vmap(ljax.grad(lambda x: apply(jnp.sin, x)))(jnp.ones(2)).tolist() == [7, 7]

        @ljax.custom_vjp
        def clipped(x):
            return x

        clipped.defvjp(lambda x: (clipped(x), None), lambda _, g: (jnp.clip(g, -1, 1),))
        assert ljax.grad(lambda x: clipped(x) * 10)(1.0) == 1

        @ljax.custom_jvp
        def product(x, y):
            return x * y

        product.defjvps(lambda t, out, x, y: 2 * t * y, None)
        assert ljax.grad(product, argnums=(0, 1))(3.0, 5.0) == (10, 0)

    def test_debugging(self, capsys):
        ljax.debug.print("x: {x}", x=jnp.arange(2))
        ljax.vmap(lambda v: (ljax.debug.print("v: {}", v), v)[1])(jnp.arange(2))
        ljax.grad(lambda v: (ljax.debug.print("g: {}", v), v)[1])(1.5)
        assert capsys.readouterr().out == "x: [0 1]\nv: [0 1]\ng: 1.5\n"

    def test_callbacks(self):
        shape = ljax.ShapeDtypeStruct((), np.float32)
        f = lambda x: ljax.pure_callback(lambda v: np.sin(v), shape, x)
        assert float(f(jnp.float32(0.5))) == pytest.approx(np.sin(0.5))
        np.testing.assert_allclose(ljax.vmap(f)(jnp.arange(3.0)), np.sin(np.arange(3)), rtol=1e-6)


def test_trees():
    @ljax.tree_util.register_pytree_node_class
    class Box:
        def __init__(self, value, name):
            self.value, self.name = value, name

        def tree_flatten(self):
            return (self.value,), self.name

        @classmethod
        def tree_unflatten(cls, name, children):
            return cls(children[0], name)

    found = ljax.grad(lambda box: jnp.sum(box.value**2))(Box(jnp.array([1.0, 2.0]), "b"))
    assert found.name == "b" and found.value.tolist() == [2, 4]
    assert ljax.vmap(lambda box: box.value.sum())(Box(jnp.ones((2, 3)), "b")).tolist() == [3, 3]
    assert ljax.tree.structure(found) != ljax.tree.structure(Box(jnp.zeros(2), "c"))
    partial_sum = ljax.tree_util.Partial(lambda a, b: a + b, jnp.ones(2))
    assert ljax.jit(lambda f: f(1.0))(partial_sum).tolist() == [2, 2]
    value, unravel = ljax.flatten_util.ravel_pytree([jnp.ones(2), {"a": jnp.zeros((1, 2))}])
    assert value.shape == (4,) and unravel(value)[1]["a"].shape == (1, 2)
    assert ljax.tree.map(lambda a, b: (a, b), [1, None], [{"x": 2}, None]) == [(1, {"x": 2}), None]


def test_every_name_can_be_used():
    for module in (
        ljax,
        ljax.numpy,
        ljax.lax,
        ljax.numpy.linalg,
        ljax.numpy.fft,
        ljax.random,
        ljax.scipy.special,
        ljax.tree_util,
    ):
        for name in module.__all__:
            assert getattr(module, name) is not None or name == "newaxis", name
    assert inspect.signature(ljax.numpy.mean) and ljax.__version__


@pytest.mark.skipif(not HAS_JAX, reason="needs JAX")
def test_names_of_jax():
    """How many public names of JAX's modules are there."""
    import jax
    import jax.nn.initializers
    import jax.scipy.special

    for path, least in (
        ("numpy", 0.9),
        ("lax", 0.65),
        ("nn", 0.8),
        ("random", 0.75),
        ("tree_util", 0.45),
        ("tree", 0.75),
        ("nn.initializers", 0.9),
    ):
        theirs, ours = jax, ljax
        for part in path.split("."):
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        public = (n for n in dir(theirs) if not n.startswith("_") and not n.endswith("_p"))  # _p: JAX's primitives
        names = [n for n in public if not inspect.ismodule(getattr(theirs, n, None))]
        missing = [n for n in names if not hasattr(ours, n)]
        assert len(missing) <= (1 - least) * len(names), (path, missing)


def test_repeats_of_a_known_total():
    x = jnp.arange(6.0).reshape(3, 2)
    counts = jnp.array([1, 0, 2])
    for run in (jnp.repeat, ljax.jit(jnp.repeat, static_argnames=("axis", "total_repeat_length"))):
        for total in (2, 3, 5):
            found = run(x, counts, axis=0, total_repeat_length=total)
            want = np.repeat(np.asarray(x), [1, 0, 2], axis=0)
            want = np.concatenate([want, np.repeat(np.asarray(x)[-1:], 9, axis=0)])[:total]
            np.testing.assert_array_equal(found, want)
    slope = ljax.grad(lambda x: jnp.repeat(x, counts, axis=0, total_repeat_length=3).sum())(x)
    np.testing.assert_array_equal(slope, [[1, 1], [0, 0], [2, 2]])


def test_comparisons_and_counts_are_arrays():
    x = jnp.array([0.0, 1.0, jnp.nan])
    assert isinstance(jnp.allclose(x, x, equal_nan=True), ljax.Array) and bool(jnp.allclose(x, x, equal_nan=True))
    assert not jnp.allclose(x, x) and not jnp.array_equal(x, x) and not jnp.array_equal(x, x[:2])
    assert jnp.array_equal(x, x, equal_nan=True) and jnp.array_equal(jnp.arange(2), [0, 1])
    assert ljax.jit(lambda a: jnp.where(jnp.allclose(a, 1.0), 5, 6))(jnp.ones(2)) == 5
    counts, edges = jnp.histogram(jnp.array([0.0, 1.0, 1.0]), 2)
    assert counts.dtype == jnp.float32 and counts.tolist() == [1, 2] and edges.tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_values_between_elements(mode, order):
    image = np.arange(12.0).reshape(3, 4) ** 2
    points = np.array([[0.2, 1.6, -0.7, 2.9, 5.3], [0.4, 2.5, 1.1, -1.2, 3.3]])
    if mode in ("constant", "wrap"):  # SciPy's edges of these modes are not JAX's
        points = points[:, :2]
    expected = scipy.ndimage.map_coordinates(image, points, order=order, mode=mode, cval=-1.0)
    found = ljax.scipy.ndimage.map_coordinates(image, list(points), order, mode, cval=-1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_values_outside_of_an_array_and_their_gradients():
    read = ljax.scipy.ndimage.map_coordinates
    np.testing.assert_allclose(read(np.arange(3.0), [np.array([-0.5, 2.5, 9.0])], 1, cval=4.0), [2.0, 3.0, 4.0])
    at = jnp.array([0.5, 1.25])
    slopes = ljax.vmap(ljax.grad(lambda p: read(jnp.array([0.0, 1.0, 4.0]), [p], 1)))(at)
    np.testing.assert_allclose(slopes, [1.0, 3.0])
    for wrong in ({"order": 3}, {"order": 1, "mode": "there"}):
        with pytest.raises(NotImplementedError):
            read(jnp.ones(3), [at], **wrong)
    with pytest.raises(ValueError, match="2 dimensions"):
        read(jnp.ones((2, 2)), [at], 1)


def test_minima():
    for method in ("BFGS", "l-bfgs-experimental-do-not-rely-on-this"):
        found = ljax.scipy.optimize.minimize(lambda x, a: ((x - a) ** 4).sum(), jnp.zeros(3), (2.0,), method=method)
        np.testing.assert_allclose(found.x, 2 * np.ones(3), atol=0.05)
        assert found.success and found.jac.shape == (3,) and found.hess_inv.shape == (3, 3) and found.nit > 1
    with pytest.raises(ValueError, match="vector"):
        ljax.scipy.optimize.minimize(lambda x: x.sum(), jnp.zeros((2, 2)), method="BFGS")
    with pytest.raises(ValueError, match="method"):
        ljax.scipy.optimize.minimize(lambda x: x.sum(), jnp.zeros(2), method="simplex")


def test_errors_that_are_type_errors_in_jax():
    for call in (lambda: ljax.grad(lambda x: x * 2)(jnp.ones(2)), lambda: ljax.grad(lambda x: x)(1)):
        with pytest.raises(TypeError):
            call()


def test_transposes_of_functions_of_numbers():
    np.testing.assert_allclose(ljax.linear_transpose(lambda x: 3 * x, 1.0)(2.0), [6.0])


def test_numbers_that_begin_a_loop_take_its_type():
    xs = jnp.arange(3.0)
    carry, _ = ljax.lax.scan(lambda c, x: ((c[0] + x, c[1] + 1), None), (0, 0), xs)
    assert (carry[0].dtype, carry[1].dtype) == (np.float32, np.int32) and float(carry[0]) == 3
    found = ljax.lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0)
    assert found.dtype == np.float32 and float(found) == 3
    assert float(ljax.lax.fori_loop(0, 3, lambda i, c: c * 1.5, 1)) == 1.5**3
    assert float(ljax.grad(lambda w: ljax.lax.scan(lambda c, x: (c + w * x, None), 0, xs)[0])(2.0)) == 3
    with pytest.raises(ValueError, match="carry"):
        ljax.lax.scan(lambda c, x: (c + 0.5, None), jnp.int32(0), xs)  # an array keeps its type
    with pytest.raises(ValueError, match="carry"):
        ljax.lax.scan(lambda c, x: (jnp.stack([c, c]), None), 0.0, xs)


def test_sorting_downwards():
    x = jnp.array([[2.0, 3.0, 1.0], [5.0, 5.0, 4.0]])
    for axis in (0, 1, -1):
        want = np.flip(np.sort(np.asarray(x), axis), axis)
        np.testing.assert_array_equal(jnp.sort(x, axis, descending=True), want)
        np.testing.assert_array_equal(x.sort(axis, descending=True), want)
    assert jnp.argsort(x, descending=True).tolist() == [[1, 0, 2], [0, 1, 2]]
    assert jnp.sort(x, None, descending=True).tolist() == [5, 5, 4, 3, 2, 1]
    assert jnp.argsort(x, None).tolist() == np.argsort(np.asarray(x), None, stable=True).tolist()
    np.testing.assert_array_equal(jnp.fill_diagonal(x, 0.0, inplace=False), [[0, 3, 1], [5, 0, 4]])
    with pytest.raises(NotImplementedError):
        jnp.fill_diagonal(x, 0.0)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [((7,), (3,)), ((5,), (4,)), ((5, 6), (2, 3)), ((3,), (5,))])
def test_signals(mode, sizes):
    signal = pytest.importorskip("scipy.signal")
    ours = ljax.scipy.signal
    random = np.random.RandomState(0)
    a, b = (random.randn(*size).astype(np.float32) for size in sizes)
    for name in ("convolve", "correlate") if a.ndim == 1 else ("convolve", "correlate", "convolve2d", "correlate2d"):
        want = getattr(signal, name)(a, b, mode)
        np.testing.assert_allclose(getattr(ours, name)(jnp.array(a), b, mode), want, 1e-5, 1e-5, err_msg=name)
    np.testing.assert_allclose(ours.fftconvolve(a, b, mode), signal.fftconvolve(a, b, mode), 1e-5, 1e-5)
    np.testing.assert_allclose(ours.detrend(a), signal.detrend(a), 1e-4, 1e-5)
    pulled = ljax.grad(lambda x: (ours.convolve(x, b, mode) ** 2).sum())(jnp.array(a))
    step = np.zeros_like(a)
    step.flat[1] = 1e-2
    value = lambda x: (signal.convolve(x.astype(float), b, mode) ** 2).sum()
    np.testing.assert_allclose(np.asarray(pulled).flat[1], (value(a + step) - value(a - step)) / 2e-2, 1e-3, 1e-3)
    with pytest.raises(ValueError, match="mode"):
        ours.convolve(a, b, "half")


def test_gradients_by_complex_numbers_are_those_of_jax():
    """They are ∂f/∂x - i ∂f/∂y, the conjugates of Lucid's, and so are cotangents everywhere."""
    z, w = np.array([1.0 + 2.0j, -0.5 + 0.3j]), np.array([0.2 - 1.0j, 3.0 + 0.5j])

    def size(z):
        return jnp.sum(jnp.real(z * jnp.conj(z)) + jnp.imag(z**3))

    def close(got, want):
        np.testing.assert_allclose(got, want, 1e-5)

    want = 2 * z.conj() - 3j * z**2
    close(ljax.grad(size)(z), want)
    close(ljax.jit(ljax.grad(size))(z), want)
    close(ljax.vmap(ljax.grad(size))(z[:, None])[:, 0], want)
    close(ljax.value_and_grad(lambda z: (size(z), z), has_aux=True)(z)[1], want)
    gradient, handed_on = ljax.grad(lambda z: (size(z), z * 1j), has_aux=True)(z)
    close(gradient, want)
    close(handed_on, z * 1j)
    close(ljax.jacrev(size)(z), want)
    close(ljax.jacrev(lambda z: jnp.stack([size(z), size(2 * z)]))(z)[1], 8 * z.conj() - 24j * z**2)
    # Pulling back is transposing: nothing is conjugated.
    close(ljax.vjp(lambda z: z**3, z)[1](w)[0], 3 * z**2 * w)
    close(ljax.linear_transpose(lambda z: (1 + 2j) * z, z)(w)[0], (1 + 2j) * w)
    close(ljax.vjp(lambda x: jnp.exp(1j * x), z.real)[1](w)[0], (1j * np.exp(1j * z.real) * w).real)
    # Derivatives of holomorphic functions are what they are.
    for jacobian in (ljax.jacrev, ljax.jacfwd):
        close(jacobian(lambda z: z**3, holomorphic=True)(z), np.diag(3 * z**2))
    close(ljax.grad(lambda z: jnp.sum(z**3), holomorphic=True)(z), 3 * z**2)
    close(ljax.hessian(lambda z: jnp.sum(z**3), holomorphic=True)(z), np.diag(6 * z))
    with pytest.raises(TypeError, match=r"jacrev: complex results need holomorphic=True.*jax\.vjp"):
        ljax.jacrev(lambda z: z**3)(z)
    with pytest.raises(TypeError, match=r"jacfwd: complex arguments need holomorphic=True.*jax\.jvp"):
        ljax.jacfwd(size)(z)


def test_rules_of_complex_functions_have_the_cotangents_of_jax():
    @ljax.custom_vjp
    def cube(z, scale):
        return scale * z**3

    def backward(residuals, ct):
        z, scale = residuals
        seen.append(np.asarray(ct))
        return 3 * scale * z**2 * ct, None

    seen = []
    cube.defvjp(lambda z, scale: (cube(z, scale), (z, scale)), backward)
    z, w = np.array([1.0 + 2.0j, -0.5 + 0.3j]), np.array([0.2 - 1.0j, 3.0 + 0.5j])
    np.testing.assert_allclose(ljax.vjp(lambda z: cube(z, 2.0), z)[1](w)[0], 6 * z**2 * w, 1e-5)
    np.testing.assert_allclose(seen[0], w, 1e-6)
    for f in (lambda z: cube(z, 2.0), lambda z: 2.0 * z**3):
        np.testing.assert_allclose(ljax.grad(lambda z: jnp.sum(jnp.imag(f(z))))(z), -6j * z**2, 1e-5)  # noqa: B023


def test_keys_are_elements_of_arrays():
    key = ljax.random.key(3)
    keys = ljax.random.split(key, (2, 3))
    assert key.shape == () and keys.shape == (2, 3) and keys.ndim == 2 and keys.size == 6 and len(keys) == 2
    assert (
        keys[1].shape == (3,) and keys[0, 1].shape == () and keys[..., 0].shape == (2,) and keys.ravel().shape == (6,)
    )
    assert [k.shape for k in keys[0]] == [()] * 3
    assert key.dtype == ljax.random.fold_in(key, 1).dtype
    assert jnp.issubdtype(key.dtype, ljax.dtypes.prng_key) and not jnp.issubdtype(jnp.uint32, ljax.dtypes.prng_key)
    # The same draws as those of the numbers that the keys are.
    raw = ljax.random.key_data(keys)
    assert raw.shape == (2, 3, 2) and bool((ljax.random.wrap_key_data(raw) == keys).all())
    draw = ljax.vmap(ljax.vmap(lambda k: ljax.random.normal(k, (2,))))
    np.testing.assert_array_equal(draw(keys), draw(raw))
    np.testing.assert_array_equal(ljax.jit(draw)(keys), draw(raw))
    np.testing.assert_array_equal(ljax.random.uniform(key, (4,)), ljax.random.uniform(ljax.random.PRNGKey(3), (4,)))

    def body(key, _):
        key, own = ljax.random.split(key)
        return key, ljax.random.normal(own)

    last, drawn = ljax.lax.scan(body, key, None, length=3)
    one = key
    for k in range(3):
        one, value = body(one, None)
        assert value == drawn[k]
    assert bool(last == one) and not bool(last != one)
    with pytest.raises(TypeError, match="vmap"):
        ljax.random.normal(keys)
    with pytest.raises(TypeError, match="pairs"):
        ljax.random.wrap_key_data(jnp.ones(2))


def test_reduced_precision_is_that_of_narrower_types():
    x = np.concatenate(
        [RANDOM.standard_normal(300) * 10.0 ** RANDOM.randint(-8, 8, 300), [0, -0.0, np.inf, np.nan, 65519, 65520]]
    )
    x = jnp.asarray(x.astype(np.float32))
    with np.errstate(over="ignore"):
        narrow = np.asarray(x).astype(np.float16)
    least = np.abs(narrow) >= np.finfo(np.float16).smallest_normal
    expected = np.where(least | ~np.isfinite(narrow), narrow.astype(np.float32), 0)
    np.testing.assert_array_equal(ljax.lax.reduce_precision(x, 5, 10), expected)
    np.testing.assert_array_equal(ljax.lax.reduce_precision(x, 8, 7), x.astype(jnp.bfloat16).astype(jnp.float32))
    np.testing.assert_array_equal(ljax.lax.reduce_precision(x, 8, 23), x)
    f = lambda x: ljax.lax.reduce_precision(x * x, 8, 3)
    points = jnp.array([1.3, 2.7])
    expected = ljax.lax.reduce_precision(jnp.ones(2), 8, 3) * 2 * points
    np.testing.assert_allclose(ljax.grad(lambda x: f(x).sum())(points), expected)
    np.testing.assert_allclose(ljax.vmap(ljax.grad(f))(points), expected)
    np.testing.assert_allclose(ljax.jvp(f, (points,), (jnp.ones(2),))[1], ljax.lax.reduce_precision(2 * points, 8, 3))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gumbel_r", ()),
        ("gumbel_l", ()),
        ("logistic", ()),
        ("gennorm", (1.7,)),
        ("truncnorm", (-0.5, 2.0)),
        ("truncnorm", (4.0, 9.0)),
        ("vonmises", (1.3,)),
        ("wrapcauchy", (0.4,)),
    ],
)
def test_densities_are_scipys(name, shape):
    own, theirs = getattr(ljax.scipy.stats, name), getattr(scipy.stats, name)
    x = np.array([-3.0, -1.2, -0.3, 0.4, 1.1, 2.5, 4.5, 6.0], np.float32)
    x = np.clip(x, -3, 3) if name == "vonmises" else x
    with ljax.enable_x64(True):
        x = x.astype(np.float64)
        np.testing.assert_allclose(own.logpdf(x, *shape), theirs.logpdf(x, *shape), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(own.pdf(x, *shape), theirs.pdf(x, *shape), rtol=1e-9, atol=1e-14)
        slope = ljax.vmap(ljax.grad(lambda x: own.logpdf(x, *shape)))(jnp.asarray(x))
        inside = np.isfinite(theirs.logpdf(x, *shape))
        near = (theirs.logpdf(x[inside] + 1e-6, *shape) - theirs.logpdf(x[inside] - 1e-6, *shape)) / 2e-6
        np.testing.assert_allclose(np.asarray(slope)[inside], near, rtol=1e-5, atol=1e-5)
        assert not np.asarray(slope)[~inside].any()
        if own.formulas["cdf"] is not None:
            np.testing.assert_allclose(own.cdf(x, *shape), theirs.cdf(x, *shape), rtol=1e-8, atol=1e-14)
            np.testing.assert_allclose(own.sf(x, *shape), theirs.sf(x, *shape), rtol=1e-7, atol=1e-12)
        if own.formulas["ppf"] is not None:
            q = np.array([0.01, 0.5, 0.9])
            np.testing.assert_allclose(own.ppf(q, loc=1.0, scale=2.0), theirs.ppf(q, loc=1.0, scale=2.0), rtol=1e-9)
            np.testing.assert_allclose(own.isf(q), theirs.isf(q), rtol=1e-9)


def test_probabilities_and_ranks_are_scipys():
    stats, k = ljax.scipy.stats, np.array([-1, 0, 1, 2, 5, 7])
    for name, args in (
        ("nbinom", (3.0, 0.4)),
        ("betabinom", (5, 2.0, 3.0)),
        ("poisson", (2.5,)),
        ("bernoulli", (0.3,)),
    ):
        own, theirs = getattr(stats, name), getattr(scipy.stats, name)
        np.testing.assert_allclose(own.logpmf(k, *args), theirs.logpmf(k, *args), rtol=1e-4)
        if hasattr(own, "cdf"):
            np.testing.assert_allclose(own.cdf(k, *args), theirs.cdf(k, *args), rtol=1e-5)
    counts, p = np.array([1, 2, 3]), np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(
        stats.multinomial.pmf(counts, 6, p), scipy.stats.multinomial.pmf(counts, 6, p), rtol=1e-5
    )
    assert stats.multinomial.pmf(counts, 7, p) == 0
    a = np.array([[3, 1, 3, 1], [2, 2, 3, 1], [2, 1, 5, 1]])
    for axis in (None, 0, 1):
        for method in ("average", "min", "max", "dense", "ordinal"):
            np.testing.assert_array_equal(
                stats.rankdata(a, method, axis=axis),
                scipy.stats.rankdata(a, method, axis=axis).reshape(-1 if axis is None else a.shape),
            )
        for own, theirs in zip(stats.mode(a, axis=axis), scipy.stats.mode(a, axis=axis), strict=True):
            np.testing.assert_array_equal(own, theirs)
        np.testing.assert_allclose(stats.sem(a, axis=axis), scipy.stats.sem(a, axis=axis), rtol=1e-6)


def test_pieces_under_transforms():
    x = jnp.array([-2.0, 0.0, 0.5, 3.0])

    def pieces(x, power=2):  # later conditions come first
        return jnp.piecewise(x, [x < 0, x > 0, x > 2], [lambda v, n: v**n, lambda v, n: jnp.exp(v), 7.0, 1.0], power)

    values, slopes = [4.0, 1.0, np.exp(0.5), 7.0], [-4.0, 0.0, np.exp(0.5), 0.0]
    np.testing.assert_allclose(pieces(x), values, 1e-6)
    np.testing.assert_allclose(ljax.jit(pieces)(x), values, 1e-6)
    np.testing.assert_allclose(ljax.vmap(pieces)(x.reshape(2, 2)).reshape(-1), values, 1e-6)
    np.testing.assert_allclose(ljax.vmap(ljax.grad(pieces))(x), slopes, 1e-6)
    np.testing.assert_allclose(ljax.jacfwd(pieces)(x), np.diag(slopes), 1e-6)
    np.testing.assert_allclose(jnp.piecewise(x, [x < 0], [jnp.square]), [4.0, 0, 0, 0])
    with pytest.raises(ValueError, match="1 conditions need as many functions, or one more"):
        jnp.piecewise(x, [x < 0], [1.0, 2.0, 3.0])
