"""The workloads as a user of JAX writes them, compiled as a whole by `jax.jit`: functions of arrays, from the same numbers."""

import math
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks import programs, training, transforms
from benchmarks.libraries import LIBRARIES, Library, Thunk
from benchmarks.training import Recipe

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError:  # then there is no such contestant
    jax = None  # type: ignore[assignment]


class Jax(Library):
    """JAX on the CPU. A call ends when its results are there."""

    name = "jax"
    module = "jax"

    def __init__(self) -> None:
        if jax is None:
            raise ImportError("No module named 'jax'")
        jax.config.update("jax_enable_x64", True)
        self.version = jax.__version__
        self.own = OWN

    def constant(self, array: np.ndarray) -> Any:
        return jnp.asarray(array)

    leaf = constant

    def relu(self, x: Any) -> Any:
        return jax.nn.relu(x)

    def array(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def value_and_gradient(self, loss: Any, leaves: Any, constants: Any) -> Thunk:
        places = tuple(range(len(leaves)))
        both = jax.jit(jax.value_and_grad(lambda *args: loss(self, *args), argnums=places))
        given = [self.constant(a) for a in (*leaves, *constants)]
        return _whole(lambda: both(*given))


def _whole(run: Callable[[], Any]) -> Thunk:
    """A call that waits for its results, and gives them as a list."""
    return lambda: jax.tree_util.tree_leaves(jax.block_until_ready(run()))


# --- transforms --------------------------------------------------------------------------------------


def _network(parameters: Any, x: Any) -> Any:
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
        x = jnp.tanh(x @ w + b)
    return x @ parameters[-2] + parameters[-1]


def _per_sample(lib: Library) -> Thunk:
    def error(parameters: Any, x: Any, y: Any) -> Any:
        return ((_network(parameters, x) - y) ** 2).sum()

    given = (
        [jnp.asarray(a) for a in transforms.weights(64, 64, 64, 10)],
        transforms.points(64, 64),
        transforms.points(64, 10),
    )
    gradients = jax.jit(jax.vmap(jax.grad(error), in_axes=(None, 0, 0)))
    return _whole(lambda: gradients(*given))


def _jacobian(transform: str, lib: Library) -> Thunk:
    parameters = [jnp.asarray(a) for a in transforms.weights(64, 128, 64)]
    jacobian = jax.jit(getattr(jax, transform)(lambda x: jnp.tanh(_network(parameters, x))))
    x = jnp.asarray(transforms.points(64))
    return _whole(lambda: jacobian(x))


def _hessian(lib: Library) -> Thunk:
    parameters = [jnp.asarray(a) for a in transforms.weights(64, 64, 1)]
    hessian = jax.jit(jax.hessian(lambda x: _network(parameters, x).sum()))
    x = jnp.asarray(transforms.points(64))
    return _whole(lambda: hessian(x))


def _pinn(lib: Library) -> Thunk:
    parameters = [jnp.asarray(a) for a in transforms.weights(1, 64, 64, 1)]
    x = jnp.asarray(transforms.points(256, 1))

    def residual(parameters: Any) -> Any:
        def u(x: Any) -> Any:
            return _network(parameters, x)

        slope = jax.grad(lambda x: u(x).sum())
        bend = jax.grad(lambda x: slope(x).sum())(x)
        return ((bend + u(x)) ** 2).mean()

    gradient = jax.jit(jax.grad(residual))
    return _whole(lambda: gradient(parameters))


# --- training ----------------------------------------------------------------------------------------


def _linear(p: Any, name: str, x: Any) -> Any:
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def _layer_norm(p: Any, name: str, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _mlp(p: Any, x: Any) -> Any:
    last = max(int(name.split(".")[0]) for name in p)
    for k in range(0, last + 1, 2):
        x = _linear(p, str(k), x)
        x = jax.nn.relu(x) if k < last else x
    return x


def _block(p: Any, name: str, x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    qkv = _linear(p, f"{name}.qkv", _layer_norm(p, f"{name}.before_attention", x))
    q, k, v = (part.reshape(batch, length, heads, width // heads) for part in jnp.split(qkv, 3, 2))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(width // heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    y = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), v).reshape(batch, length, width)
    x = x + _linear(p, f"{name}.out", y)
    inner = jax.nn.gelu(_linear(p, f"{name}.mlp.0", _layer_norm(p, f"{name}.before_mlp", x)), approximate=False)
    return x + _linear(p, f"{name}.mlp.2", inner)


def _gpt(p: Any, x: Any, heads: int) -> Any:
    layers = 1 + max(int(name.split(".")[1]) for name in p if name.startswith("blocks."))
    x = p["tokens.weight"][x] + p["positions.weight"][: x.shape[1]]
    for k in range(layers):
        x = _block(p, f"blocks.{k}", x, heads)
    logits = _linear(p, "head", _layer_norm(p, "norm", x))
    return logits.reshape(-1, logits.shape[-1])


def _lstm(p: Any, x: Any) -> Any:
    w, u = p["lstm.weight_ih_l0"], p["lstm.weight_hh_l0"]
    bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    start = jnp.zeros((x.shape[1], u.shape[1]), x.dtype)

    def cell(state: Any, given: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(given + h @ u.T, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    (h, _), _ = lax.scan(cell, (start, start), x @ w.T + bias)
    return _linear(p, "head", h)


def _cnn(p: Any, x: Any, strides: tuple[int, ...]) -> Any:
    for k, stride in enumerate(strides):
        x = lax.conv_general_dilated(x, p[f"{3 * k}.weight"], (stride, stride), ((1, 1), (1, 1)))
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
        w, b = (p[f"{3 * k + 1}.{n}"][:, None, None] for n in ("weight", "bias"))
        x = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * w + b)
    return _linear(p, str(3 * len(strides) + 2), x.mean((2, 3)))


def _cross_entropy(scores: Any, target: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), target[:, None], 1).mean()


def _mse(found: Any, target: Any) -> Any:
    return ((found - target) ** 2).mean()


def _adam(p: Any, g: Any, state: Any, count: Any, lr: float, decay: float) -> Any:
    m, v = 0.9 * state[0] + 0.1 * g, 0.999 * state[1] + 0.001 * g * g
    step = (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
    return p * (1 - lr * decay) - lr * step, (m, v)


def _sgd(p: Any, g: Any, state: Any, count: Any, lr: float, momentum: float) -> Any:
    m = momentum * state[0] + g
    return p - lr * m, (m, state[1])


def _updater(recipe: Recipe) -> Any:
    if recipe.optimizer == "SGD":
        return partial(_sgd, **recipe.options)
    return partial(_adam, lr=recipe.options["lr"], decay=0.01 if recipe.optimizer == "AdamW" else 0.0)


def _trained(recipe: Recipe, model: Any, lib: Library) -> Thunk:
    """A call that trains for one step and gives the loss before it, with a few steps already taken."""
    start = recipe.initial()
    p = {n: jnp.asarray(a) for n, a in start.items() if "running_" not in n and not n.endswith("num_batches_tracked")}
    criterion = _cross_entropy if recipe.loss == "cross_entropy" else _mse
    x, targets = jnp.asarray(recipe.x), cycle([jnp.asarray(t) for t in recipe.targets])
    update = _updater(recipe)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(p: Any, state: Any, count: Any, x: Any, target: Any) -> Any:
        loss, g = jax.value_and_grad(lambda p: criterion(model(p, x), target))(p)
        found = {n: update(p[n], g[n], state[n], count) for n in p}
        return {n: f[0] for n, f in found.items()}, {n: f[1] for n, f in found.items()}, loss

    now = [p, {n: (jnp.zeros_like(a), jnp.zeros_like(a)) for n, a in p.items()}, 0]

    def run() -> Any:
        now[2] += 1
        now[0], now[1], loss = step(now[0], now[1], np.float32(now[2]), x, next(targets))
        return loss

    whole = _whole(run)
    for _ in range(training.STEPS_BEFORE):
        whole()
    return whole


def _step(name: str, model: Any) -> Callable[[Library], Thunk]:
    recipe = next(recipe for own, _, recipe, _ in training.STEPS if own == name)
    return partial(_trained, recipe, model)


# --- programs ----------------------------------------------------------------------------------------


def _gated(lib: Library, x: Any, a: Any, b: Any) -> Any:
    return (jax.nn.gelu(x * a + b, approximate=False) * jax.nn.sigmoid(x)).sum()


def _normalized(lib: Library, x: Any, weight: Any, bias: Any, target: Any) -> Any:
    y = _layer_norm({"n.weight": weight, "n.bias": bias}, "n", x)
    return (jax.nn.softmax(y, 1) * target).sum()


def _recurrence(lib: Library, start: Any, factors: Any) -> Any:
    return lax.scan(lambda y, f: (y * f + 0.01, None), start, factors)[0].sum()


def _of_loss(loss: Any, arrays: Any) -> Callable[[Library], Thunk]:
    return lambda lib: lib.value_and_gradient(loss, *arrays())


OWN: dict[str, Callable[[Library], Thunk]] = {
    "per-sample": _per_sample,
    "jacrev": partial(_jacobian, "jacrev"),
    "jacfwd": partial(_jacobian, "jacfwd"),
    "hessian": _hessian,
    "pinn": _pinn,
    "train-mlp-small": _step("train-mlp-small", _mlp),
    "train-mlp": _step("train-mlp", _mlp),
    "train-gpt": _step("train-gpt", partial(_gpt, heads=4)),
    "train-gpt-wide": _step("train-gpt-wide", partial(_gpt, heads=6)),
    "train-lstm": _step("train-lstm", _lstm),
    "train-cnn": _step("train-cnn", partial(_cnn, strides=(1, 2, 2))),
    "gated": _of_loss(_gated, programs.gated_arrays),
    "normalized": _of_loss(_normalized, programs.rows_arrays),
    "recurrence": _of_loss(_recurrence, programs.recurrence_arrays),
}
LIBRARIES[Jax.name] = Jax
