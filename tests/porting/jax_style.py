"""Programs as users of JAX write them, each a function of the namespace `jax`."""

from collections import namedtuple
from functools import partial
from itertools import pairwise

import numpy as np


def numbers(*shape, seed=0, scale=1.0):
    return (np.random.RandomState(seed).randn(*shape) * scale).astype(np.float32)


def mlp(jax):
    """A classifier: jit of value_and_grad, a pytree of parameters, plain gradient descent."""
    jnp = jax.numpy
    x, y = jnp.asarray(numbers(32, 4)), jnp.asarray(np.random.RandomState(1).randint(0, 3, 32))
    sizes = [4, 16, 16, 3]
    params = [
        {"w": jnp.asarray(numbers(m, n, seed=i, scale=m**-0.5)), "b": jnp.zeros(n)}
        for i, (m, n) in enumerate(pairwise(sizes))
    ]

    def predict(params, x):
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def loss(params, x, y):
        log_probs = jax.nn.log_softmax(predict(params, x))
        return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 3) * log_probs, axis=-1))

    @jax.jit
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree_util.tree_map(lambda p, g: p - 0.5 * g, params, grads), value

    losses = []
    for _ in range(10):
        params, value = step(params, x, y)
        losses.append(float(value))
    accuracy = jnp.mean(jnp.argmax(predict(params, x), axis=1) == y)
    return {"losses": losses, "w": np.asarray(params[0]["w"]), "accuracy": float(accuracy)}


def scan_rnn(jax):
    """A recurrent network by lax.scan, trained through time; clipping by the global norm."""
    jnp, lax = jax.numpy, jax.lax
    params = {
        "wx": jnp.asarray(numbers(3, 8, seed=1, scale=0.5)),
        "wh": jnp.asarray(numbers(8, 8, seed=2, scale=0.3)),
        "b": jnp.zeros((8,)),
        "out": jnp.asarray(numbers(8, 2, seed=3, scale=0.3)),
    }
    xs, ys = jnp.asarray(numbers(6, 5, 3, seed=4)), jnp.asarray(numbers(6, 5, 2, seed=5))

    def cell(params, h, x):
        h = jnp.tanh(x @ params["wx"] + h @ params["wh"] + params["b"])
        return h, h @ params["out"]

    def loss(params):
        _, predictions = lax.scan(partial(cell, params), jnp.zeros((5, 8)), xs)
        return jnp.mean((predictions - ys) ** 2)

    losses = []
    for _ in range(5):
        value, grads = jax.jit(jax.value_and_grad(loss))(params)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree_util.tree_leaves(grads)))
        factor = jnp.minimum(1.0, 0.5 / norm)
        params = jax.tree_util.tree_map(lambda p, g, s=0.3 * factor: p - s * g, params, grads)
        losses.append(float(value))
    reverse = lax.scan(lambda c, x: (c * 0.5 + x, c), jnp.zeros((5, 3)), xs, reverse=True)
    return {"losses": losses, "wh": np.asarray(params["wh"]), "reverse": np.asarray(reverse[1])}


def neural_ode(jax):
    """Runge-Kutta steps in fori_loop, a vector field with parameters, and the adjoint as a custom_vjp."""
    jnp, lax = jax.numpy, jax.lax
    params = (jnp.asarray(numbers(2, 6, seed=1, scale=0.5)), jnp.asarray(numbers(6, 2, seed=2, scale=0.5)))

    def field(y, params):
        return jnp.tanh(y @ params[0]) @ params[1]

    def rk4(y, params, dt):
        k1 = field(y, params)
        k2 = field(y + dt / 2 * k1, params)
        k3 = field(y + dt / 2 * k2, params)
        k4 = field(y + dt * k3, params)
        return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def solve(y, params):
        return lax.fori_loop(0, 8, lambda i, y: rk4(y, params, 0.1), y)

    @partial(jax.custom_vjp, nondiff_argnums=(2,))
    def euler(y, params, steps):
        return lax.fori_loop(0, steps, lambda i, y: y + 0.1 * field(y, params), y)

    def euler_fwd(y, params, steps):
        out = euler(y, params, steps)
        return out, (out, params)

    def euler_bwd(steps, residuals, g):
        y, params = residuals

        def back(i, state):
            y, g, total = state
            _, pull = jax.vjp(field, y, params)
            gy, gp = pull(g)
            total = jax.tree_util.tree_map(lambda t, d: t + 0.1 * d, total, gp)
            return y - 0.1 * field(y, params), g + 0.1 * gy, total

        zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
        _, g, total = lax.fori_loop(0, steps, back, (y, g, zeros))
        return g, total

    euler.defvjp(euler_fwd, euler_bwd)
    y0 = jnp.asarray(numbers(4, 2, seed=3))
    grads = jax.grad(lambda p: jnp.sum(solve(y0, p) ** 2))(params)
    adjoint = jax.grad(lambda y, p: jnp.sum(euler(y, p, 5) ** 2), argnums=(0, 1))(y0, params)
    return {
        "y": np.asarray(solve(y0, params)),
        "grad": np.asarray(grads[0]),
        "adjoint": np.asarray(adjoint[0]),
        "adjoint params": np.asarray(adjoint[1][1]),
    }


def hmc(jax):
    """Hamiltonian Monte Carlo on a correlated normal, many chains by vmap; the momenta are given."""
    jnp, lax = jax.numpy, jax.lax
    precision = jnp.array([[2.0, -0.6], [-0.6, 1.0]])

    def log_prob(q):
        return -0.5 * q @ precision @ q

    def leapfrog(q, p, step_size):
        p = p + 0.5 * step_size * jax.grad(log_prob)(q)

        def body(state, _):
            q, p = state
            q = q + step_size * p
            p = p + step_size * jax.grad(log_prob)(q)
            return (q, p), q

        (q, p), path = lax.scan(body, (q, p), None, length=5)
        p = p - 0.5 * step_size * jax.grad(log_prob)(q)
        return q, p, path

    @jax.jit
    def transition(q, momentum, u):
        new, p, path = leapfrog(q, momentum, 0.2)
        energy = -log_prob(q) + 0.5 * momentum @ momentum
        change = energy - (-log_prob(new) + 0.5 * p @ p)
        accept = jnp.log(u) < change
        return jnp.where(accept, new, q), accept, path

    q = jnp.asarray(numbers(7, 2, seed=1))
    accepted = []
    for i in range(4):
        momentum = jnp.asarray(numbers(7, 2, seed=10 + i))
        u = jnp.asarray(np.random.RandomState(i).rand(7).astype(np.float32))
        q, accept, path = jax.vmap(transition)(q, momentum, u)
        accepted.append(np.asarray(accept))
    return {"q": np.asarray(q), "accepted": np.stack(accepted).astype(int), "path": np.asarray(path)}


def gaussian_process(jax):
    """The marginal likelihood by Cholesky, its gradient and Hessian by hyperparameters, and predictions."""
    jnp = jax.numpy
    solve_triangular = jax.scipy.linalg.solve_triangular
    x = jnp.linspace(-1.0, 1.0, 12)
    y = jnp.sin(3 * x)

    def kernel(a, b, log_length, log_scale):
        distance = (a[:, None] - b[None, :]) ** 2
        return jnp.exp(log_scale) * jnp.exp(-0.5 * distance / jnp.exp(log_length) ** 2)

    def negative_log_likelihood(theta):
        k = kernel(x, x, theta[0], theta[1]) + jnp.exp(theta[2]) * jnp.eye(x.size)
        factor = jnp.linalg.cholesky(k)
        alpha = solve_triangular(factor, y, lower=True)
        return 0.5 * alpha @ alpha + jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * x.shape[0] * jnp.log(2 * jnp.pi)

    theta = jnp.array([-0.5, 0.0, -2.0])
    for _ in range(5):
        theta = theta - 0.02 * jax.jit(jax.grad(negative_log_likelihood))(theta)
    new = jnp.array([-0.5, 0.25])
    k = kernel(x, x, theta[0], theta[1]) + jnp.exp(theta[2]) * jnp.eye(12)
    factor = jax.scipy.linalg.cho_factor(k)
    mean = kernel(new, x, theta[0], theta[1]) @ jax.scipy.linalg.cho_solve(factor, y)
    return {
        "theta": np.asarray(theta),
        "value": float(negative_log_likelihood(theta)),
        "hessian": np.asarray(jax.hessian(negative_log_likelihood)(theta)),
        "mean": np.asarray(mean),
    }


def per_example_gradients(jax):
    """vmap of grad, clipped one by one, as private training does it; in_axes, out_axes and psum of a named axis."""
    jnp = jax.numpy
    w = {"a": jnp.asarray(numbers(3, 2, seed=1)), "b": jnp.zeros(2)}
    x, y = jnp.asarray(numbers(6, 3, seed=2)), jnp.asarray(numbers(6, 2, seed=3))

    def loss(w, x, y):
        return jnp.sum((jnp.tanh(x @ w["a"] + w["b"]) - y) ** 2)

    grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    norms = jax.vmap(lambda g: jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree_util.tree_leaves(g))))(grads)
    clipped = jax.tree_util.tree_map(
        lambda g: jnp.sum(g / jnp.maximum(1.0, norms).reshape((-1,) + (1,) * (g.ndim - 1)), axis=0), grads
    )
    softmax = jax.vmap(
        lambda v: jnp.exp(v - jax.lax.pmax(v, "i")) / jax.lax.psum(jnp.exp(v - jax.lax.pmax(v, "i")), "i"),
        axis_name="i",
    )(x)
    centred = jax.vmap(lambda v: v - jax.lax.pmean(v, "batch"), axis_name="batch", out_axes=1)(x)
    mixed = jax.vmap(jax.grad(lambda v: jax.lax.psum(v**2, "i") * jax.lax.axis_index("i")), axis_name="i")(
        jnp.arange(3.0)
    )
    return {
        "norms": np.asarray(norms),
        "a": np.asarray(clipped["a"]),
        "softmax": np.asarray(softmax),
        "centred": np.asarray(centred),
        "mixed": np.asarray(mixed),
    }


def maml(jax):
    """Meta-learning: the gradient goes through inner steps, all tasks at once by vmap."""
    jnp = jax.numpy
    params = [
        (jnp.asarray(numbers(1, 10, seed=1)), jnp.zeros(10)),
        (jnp.asarray(numbers(10, 1, seed=2, scale=0.3)), jnp.zeros(1)),
    ]

    def net(params, x):
        (w1, b1), (w2, b2) = params
        return jnp.tanh(x @ w1 + b1) @ w2 + b2

    def loss(params, x, y):
        return jnp.mean((net(params, x) - y) ** 2)

    def adapt(params, x, y):
        for _ in range(2):
            grads = jax.grad(loss)(params, x, y)
            params = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)
        return params

    def task_loss(params, x, y, x2, y2):
        return loss(adapt(params, x, y), x2, y2)

    @jax.jit
    def meta_loss(params, batch):
        return jnp.mean(jax.vmap(partial(task_loss, params))(*batch))

    x = jnp.asarray(numbers(4, 5, 1, seed=3))
    phase = jnp.arange(4.0).reshape(4, 1, 1)
    batch = (x, jnp.sin(x + phase), x + 0.5, jnp.sin(x + 0.5 + phase))
    losses = []
    for _ in range(3):
        value, grads = jax.value_and_grad(meta_loss)(params, batch)
        params = jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, params, grads)
        losses.append(float(value))
    return {"losses": losses, "w": np.asarray(params[0][0])}


def pinn(jax):
    """A physics-informed network for u'' + u = 0: second derivatives by nested grad and by jvp, batched by vmap."""
    jnp = jax.numpy
    params = {
        "w1": jnp.asarray(numbers(1, 12, seed=1)), "b1": jnp.asarray(numbers(12, seed=2)),
        "w2": jnp.asarray(numbers(12, 1, seed=3, scale=0.3)),
    }  # fmt: skip
    t = jnp.linspace(0.0, 1.0, 9)

    def u(params, t):
        return (jnp.tanh(t * params["w1"][0] + params["b1"]) @ params["w2"])[0]

    du = jax.grad(u, argnums=1)
    ddu = jax.grad(du, argnums=1)

    def loss(params):
        residual = jax.vmap(lambda t: ddu(params, t) + u(params, t))(t)
        return jnp.mean(residual**2) + (u(params, 0.0) - 1.0) ** 2 + du(params, 0.0) ** 2

    losses = []
    for _ in range(5):
        value, grads = jax.value_and_grad(loss)(params)
        params = jax.tree_util.tree_map(lambda p, g: p - 0.02 * g, params, grads)
        losses.append(float(value))
    forward = jax.jvp(lambda t: jax.jvp(partial(u, params), (t,), (1.0,))[1], (0.3,), (1.0,))[1]
    return {"losses": losses, "w1": np.asarray(params["w1"]), "second": float(forward)}


def transformer(jax):
    """A language model of a pytree of parameters, layers stacked for scan, and Adam written by hand."""
    jnp, lax = jax.numpy, jax.lax
    vocabulary, width, heads, layers, length = 11, 16, 2, 2, 7
    tokens = jnp.asarray(np.random.RandomState(0).randint(0, vocabulary, (3, length + 1)))

    def block(i):
        return {
            "qkv": numbers(width, 3 * width, seed=i, scale=0.2),
            "out": numbers(width, width, seed=i + 1, scale=0.2),
            "up": numbers(width, 4 * width, seed=i + 2, scale=0.2),
            "down": numbers(4 * width, width, seed=i + 3, scale=0.2),
            "scale": np.ones((2, width), np.float32),
        }

    params = {
        "embed": jnp.asarray(numbers(vocabulary, width, seed=90, scale=0.3)),
        "position": jnp.asarray(numbers(length, width, seed=91, scale=0.3)),
        "blocks": jax.tree_util.tree_map(lambda *rows: jnp.stack(rows), *[block(10 * i) for i in range(layers)]),
    }

    def normed(x, scale):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5) * scale

    def attention(p, x):
        q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
        split = lambda t: t.reshape(length, heads, width // heads).transpose(1, 0, 2)
        scores = jnp.einsum("hqd,hkd->hqk", split(q), split(k)) / jnp.sqrt(width / heads)
        mask = jnp.tril(jnp.ones((length, length), dtype=bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        mixed = jnp.einsum("hqk,hkd->hqd", weights, split(v))
        return mixed.transpose(1, 0, 2).reshape(length, width) @ p["out"]

    def forward(params, tokens):
        x = params["embed"][tokens] + params["position"]

        @jax.checkpoint
        def layer(x, p):
            x = x + attention(p, normed(x, p["scale"][0]))
            return x + jax.nn.gelu(normed(x, p["scale"][1]) @ p["up"]) @ p["down"], None

        x, _ = lax.scan(layer, x, params["blocks"])
        return x @ params["embed"].T

    def loss(params, tokens):
        logits = jax.vmap(partial(forward, params))(tokens[:, :-1])
        log_probs = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_probs, tokens[:, 1:, None], axis=-1))

    @jax.jit
    def step(params, m, v, t, tokens):
        value, grads = jax.value_and_grad(loss)(params, tokens)
        m = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree_util.tree_map(lambda v, g: 0.99 * v + 0.01 * g**2, v, grads)
        scale = jnp.sqrt(1 - 0.99**t) / (1 - 0.9**t)
        params = jax.tree_util.tree_map(lambda p, m, v: p - 0.003 * scale * m / (jnp.sqrt(v) + 1e-4), params, m, v)
        return params, m, v, value

    m = jax.tree_util.tree_map(jnp.zeros_like, params)
    v = jax.tree_util.tree_map(jnp.zeros_like, params)
    losses = []
    for t in range(1, 5):
        params, m, v, value = step(params, m, v, float(t), tokens)
        losses.append(float(value))
    # Greedy decoding into a buffer of fixed size.
    buffer = lax.dynamic_update_slice(jnp.zeros(length, dtype=jnp.int32), tokens[0, :2].astype(jnp.int32), (0,))

    def extend(i, buffer):
        logits = forward(params, buffer)
        nxt = jnp.argmax(lax.dynamic_index_in_dim(logits, i - 1, keepdims=False))
        return buffer.at[i].set(nxt.astype(jnp.int32))

    return {
        "losses": losses,
        "embed": np.asarray(params["embed"]),
        "decoded": np.asarray(lax.fori_loop(2, length, extend, buffer)),
    }


def convolutions(jax):
    """An image network by conv_general_dilated and reduce_window, with a batch norm whose statistics are handed on."""
    jnp, lax = jax.numpy, jax.lax
    images = jnp.asarray(numbers(2, 8, 8, 3, seed=1))
    kernel = jnp.asarray(numbers(3, 3, 3, 4, seed=2, scale=0.3))
    up = jnp.asarray(numbers(2, 2, 4, 3, seed=3, scale=0.3))
    numbers_of = ("NHWC", "HWIO", "NHWC")

    def net(kernel, images):
        x = lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=numbers_of)
        mean, var = jnp.mean(x, axis=(0, 1, 2)), jnp.var(x, axis=(0, 1, 2))
        x = jax.nn.relu((x - mean) / jnp.sqrt(var + 1e-5))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(x**2), (mean, x)

    (value, (mean, x)), grad = jax.value_and_grad(net, has_aux=True)(kernel, images)
    bigger = lax.conv_transpose(x, up, (2, 2), "SAME", dimension_numbers=numbers_of)
    dilated = lax.conv_general_dilated(
        images, kernel, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(2, 1), dimension_numbers=numbers_of
    )
    pooled = lax.reduce_window(images, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return {
        "value": float(value), "mean": np.asarray(mean), "grad": np.asarray(grad), "bigger": np.asarray(bigger),
        "dilated": np.asarray(dilated), "pooled": np.asarray(pooled),
    }  # fmt: skip


def rules(jax):
    """Functions with rules of their own, implicit differentiation, and control flow under vmap and grad."""
    jnp, lax = jax.numpy, jax.lax

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, guess):
        return lax.while_loop(
            lambda s: jnp.abs(s[0] - s[1]) > 1e-6, lambda s: (s[1], f(a, s[1])), (guess, f(a, guess))
        )[1]

    def fixed_point_fwd(f, a, guess):
        x = fixed_point(f, a, guess)
        return x, (a, x)

    def fixed_point_bwd(f, residuals, ct):
        a, x = residuals
        _, pull_x = jax.vjp(lambda x: f(a, x), x)
        w = lax.fori_loop(0, 30, lambda i, w: ct + pull_x(w)[0], ct)
        return jax.vjp(lambda a: f(a, x), a)[1](w)[0], jnp.zeros_like(x)

    fixed_point.defvjp(fixed_point_fwd, fixed_point_bwd)

    def newton(a, x):
        return 0.5 * (x + a / x)

    def root(a):
        return fixed_point(newton, a, a)

    def piecewise(x):
        low = lax.cond(x > 0, lambda x: x**2, lambda x: -x, x)
        return low + lax.switch(jnp.int32(jnp.round(jnp.abs(x))), [jnp.sin, jnp.cos, jnp.tanh], x)

    x = jnp.array([-1.4, -0.3, 0.2, 2.1])
    return {
        "large": float(jax.grad(log1pexp)(100.0)),
        "second": float(jax.grad(jax.grad(log1pexp))(1.0)),
        "root": float(jax.grad(root)(2.0)),
        "branches": np.asarray(jax.vmap(jax.value_and_grad(piecewise))(x)),
        "collatz": np.asarray(
            jax.vmap(
                lambda n: lax.while_loop(
                    lambda s: s[0] > 1,
                    lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                    (n, 0),
                )[1]
            )(jnp.arange(1, 8))
        ),
        "prefix": np.asarray(lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, jnp.ones(4)))[1]),
        "linear": np.asarray(jax.linearize(lambda x: jnp.sin(x) * x, x)[1](jnp.ones(4))),
        "jacobians": np.asarray(jax.jacfwd(jnp.cumsum)(x) - jax.jacrev(jnp.cumprod)(x)),
    }


def chained_updates(jax):
    """An optimizer put together of parts that carry their state in nests, with a mask, a schedule and a None."""
    jnp = jax.numpy
    Part, Moments = namedtuple("Part", "init update"), namedtuple("Moments", "count mean square")

    def chain(*parts):
        def update(gradient, states, params):
            news = []
            for part, state in zip(parts, states, strict=True):
                gradient, state = part.update(gradient, state, params)
                news.append(state)
            return gradient, tuple(news)

        return Part(lambda params: tuple(part.init(params) for part in parts), update)

    def clipped(most):
        def update(gradient, state, params):
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(gradient)))
            return jax.tree.map(lambda g: g * jnp.minimum(1.0, most / (norm + 1e-6)), gradient), state

        return Part(lambda params: (), update)

    def adaptive(b1=0.9, b2=0.999):
        def init(params):
            zeros = jax.tree.map(jnp.zeros_like, params)
            return Moments(jnp.zeros([], jnp.int32), zeros, zeros)

        def update(gradient, state, params):
            mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, gradient)
            square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state.square, gradient)
            count = state.count + 1
            step = jax.tree.map(lambda m, v: m / (1 - b1**count) / (jnp.sqrt(v / (1 - b2**count)) + 1e-8), mean, square)
            return step, Moments(count, mean, square)

        return Part(init, update)

    def decayed(rate):
        def update(gradient, state, params):
            mask = jax.tree.map(lambda p: p.ndim > 1, params)
            return jax.tree.map(lambda g, p, m: g + rate * p if m else g, gradient, params, mask), state

        return Part(lambda params: (), update)

    def scheduled(rate):
        return Part(
            lambda params: jnp.zeros([], jnp.int32),
            lambda gradient, count, params: (jax.tree.map(lambda g: -rate(count) * g, gradient), count + 1),
        )

    def rate(count):
        return jnp.where(count < 3, 0.1 * (count + 1) / 3, 0.05 * (1 + jnp.cos(jnp.pi * count / 20)))

    random = np.random.RandomState(0)
    params = {
        "w": [jnp.array(random.randn(3, 8) * 0.3), jnp.array(random.randn(8, 1) * 0.3)],
        "b": jnp.zeros(8),
        "no": None,
    }
    x = jnp.array(random.randn(16, 3))
    y = x[:, :1] * 2 - x[:, 1:2] * x[:, 2:]

    def loss(params):
        error = jnp.tanh(x @ params["w"][0] + params["b"]) @ params["w"][1] - y
        return jnp.mean(error**2), {"absolute": jnp.abs(error).mean()}

    optimizer = chain(clipped(1.0), adaptive(), decayed(1e-3), scheduled(rate))

    @jax.jit
    def step(params, state):
        (value, aux), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(gradient, state, params)
        return jax.tree.map(lambda p, u: p + u, params, updates), state, (value, aux)

    state, losses = optimizer.init(params), []
    for _ in range(10):
        params, state, (value, aux) = step(params, state)
        losses.append([float(value), float(aux["absolute"])])
    counts = jnp.array([2, 0, 1])
    repeated = jax.jit(lambda n: jnp.repeat(x[:3], n, axis=0, total_repeat_length=4))(counts)
    return {
        "losses": losses,
        "count": int(state[1].count),
        "leaves": len(jax.tree.leaves((params, state))),
        "weights": np.asarray(params["w"][0]),
        "repeated": np.asarray(repeated),
        "close": bool(jnp.allclose(params["b"], state[1].mean["b"])),
    }


PROGRAMS = [
    chained_updates,
    mlp, scan_rnn, neural_ode, hmc, gaussian_process, per_example_gradients, maml, pinn, transformer, convolutions, rules,
]  # fmt: skip
