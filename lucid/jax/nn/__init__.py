"""`jax.nn`: activations and what belongs to them, by `lucid.nn.functional`."""

from typing import Any

import numpy as np

from lucid.api import joining, reductions, shaping, splitting
from lucid.core.primitive import lift
from lucid.jax.absences import missing as _missing
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.jax.nn import initializers as initializers
from lucid.nn import functional
from lucid.ops import binary, unary


def _floats(x: Any) -> Any:
    found = lift(DOOR.array(x))
    return found if found.np_dtype.kind in "fcV" else found.to(canonical(np.dtype(float)))


def _plain(name: str, own: str | None = None) -> Any:
    """An activation that has no other arguments."""
    function = getattr(functional, own or name)

    def activation(x: Any) -> Any:
        return function(_floats(x))

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = function.__doc__.split("\n")[0]
    return activation


relu = _plain("relu")
relu6 = _plain("relu6")
sigmoid = _plain("sigmoid")
silu = swish = _plain("silu")
selu = _plain("selu")
mish = _plain("mish")
hard_sigmoid = _plain("hard_sigmoid", "hardsigmoid")
hard_silu = hard_swish = _plain("hard_silu", "hardswish")
hard_tanh = _plain("hard_tanh", "hardtanh")
log_sigmoid = _plain("log_sigmoid", "logsigmoid")
soft_sign = _plain("soft_sign", "softsign")


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return unary.tanh(_floats(x))


def identity(x: Any) -> Any:
    """The array itself."""
    return DOOR.array(x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    >>> import lucid.jax as jax
    >>> jax.nn.softplus(0.0)
    Array(0.6931472, dtype=float32)
    """
    found = _floats(x)
    return binary.logaddexp(found, found.detach() * 0)


def sparse_plus(x: Any) -> Any:
    """0 below -1, x above 1, and a parabola in between."""
    t = _floats(x)
    return binary.where(t <= -1, 0, binary.where(t >= 1, t, (t + 1) ** 2 / 4))


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + √(x² + b)) / 2."""
    t = _floats(x)
    return (t + unary.sqrt(t * t + b)) / 2


def gelu(x: Any, approximate: bool = True) -> Any:
    """x · Φ(x) with the normal distribution function, by default its approximation with tanh.

    >>> import lucid.jax as jax
    >>> jax.nn.gelu(1.0).round(4), jax.nn.gelu(1.0, approximate=False).round(4)
    (Array(0.8412, dtype=float32), Array(0.8413, dtype=float32))
    """
    return functional.gelu(_floats(x), "tanh" if approximate else "none")


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x above 0, and `negative_slope` · x below."""
    t = _floats(x)
    return binary.where(t >= 0, t, negative_slope * t)


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, and alpha · (exp(x) - 1) below."""
    t = _floats(x)
    return binary.where(t > 0, t, alpha * unary.expm1(binary.where(t > 0, 0, t)))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, and alpha · (exp(x / alpha) - 1) below."""
    t = _floats(x)
    return binary.where(t > 0, t, alpha * unary.expm1(binary.where(t > 0, 0, t) / alpha))


def glu(x: Any, axis: int = -1) -> Any:
    """a · sigmoid(b), where a and b are the halves along an axis."""
    first, second = splitting.chunk(_floats(x), 2, axis)
    return first * unary.sigmoid(second)


def softmax(x: Any, axis: Any = -1, where: Any = None, initial: Any = None) -> Any:
    """exp(x) / Σ exp(x) along an axis, or over several.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    t = _floats(x)
    if where is None and isinstance(axis, int):
        return functional.softmax(t, axis)
    return unary.exp(log_softmax(t, axis, where))


def log_softmax(x: Any, axis: Any = -1, where: Any = None, initial: Any = None) -> Any:
    """log(softmax(x)).

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    t = _floats(x)
    if where is None and isinstance(axis, int):
        return functional.log_softmax(t, axis)
    kept = t if where is None else binary.where(lift(DOOR.array(where)), t, -np.inf)
    return kept - reductions.logsumexp(kept, axis, True)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log Σ b · exp(a), without overflow.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.logsumexp(jnp.zeros(4))
    Array(1.3862944, dtype=float32)
    """
    t = _floats(a)
    if where is not None:
        t = binary.where(lift(DOOR.array(where)), t, -np.inf)
    if b is None and not return_sign:
        return reductions.logsumexp(t, axis, keepdims)
    weights = _floats(1.0 if b is None else b)
    most = reductions.amax(t, axis, True).detach()
    most = binary.where(unary.isfinite(most), most, 0)
    total = reductions.sum(weights * unary.exp(t - most), axis, keepdims)
    shift = most if keepdims else shaping.reshape(most, tuple(total.shape))
    sign = unary.sign(total)
    if return_sign:
        return unary.log(unary.abs(total)) + shift, sign
    return unary.log(total) + shift


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the place that a number names, 0 elsewhere; numbers outside have none.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    kind = canonical(np.dtype(float if dtype is None else dtype))
    places = lift(DOOR.array(x))
    found = (places.unsqueeze(-1) == lift(np.arange(num_classes))).to(kind)
    return DOOR.adopted(shaping.movedim(found, -1, axis))


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None
) -> Any:
    """The array with mean 0 and variance 1 along an axis."""
    if where is not None:
        raise ValueError("standardize: give mean and variance of what is meant in the place of `where`")
    t = _floats(x)
    centre = reductions.mean(t, axis, True) if mean is None else mean
    spread = reductions.mean(unary.square(t), axis, True) - unary.square(centre) if variance is None else variance
    return (t - centre) * unary.rsqrt(spread + epsilon)


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, **hints: Any,
) -> Any:  # fmt: skip
    """Attention of queries (batch, length, heads, features) to keys and values."""
    q, k, v = (shaping.movedim(_floats(t), -2, -3) for t in (query, key, value))
    if k.shape[-3] != q.shape[-3]:
        k, v = (shaping.repeat_interleave(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    allowed = None if mask is None else lift(DOOR.array(mask))
    if bias is not None:
        extra = _floats(bias)
        allowed = extra if allowed is None else binary.where(allowed, extra, -np.inf)
    found = functional.scaled_dot_product_attention(q, k, v, allowed, is_causal=is_causal, scale=scale)
    return shaping.movedim(found, -3, -2)


def concat_elu(x: Any, axis: int = -1) -> Any:
    """elu of x and of -x, one after the other."""
    return joining.cat([elu(x), elu(-_floats(x))], axis)


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)), accurate for small and large x.

    >>> import lucid.jax as jax
    >>> jax.nn.log1mexp(1.0).round(4)
    Array(-0.4587, dtype=float32)
    """
    y = _floats(x)
    return binary.where(y < np.log(2.0), unary.log(-unary.expm1(-y)), unary.log1p(-unary.exp(-y)))


def logmeanexp(x: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """log of the mean of exp(x), along an axis.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.logmeanexp(jnp.zeros(3))
    Array(0., dtype=float32)
    """
    y = _floats(x)
    count = lift(np.ones(y.shape)) if where is None else lift(DOOR.array(where)).to(y.np_dtype)
    shown = y if where is None else binary.where(lift(DOOR.array(where)), y, -np.inf)
    dims = tuple(range(y.ndim)) if axis is None else axis
    total = reductions.sum(count.expand(y.shape), dims, keepdims)
    return reductions.logsumexp(shown, dims, keepdims) - unary.log(total.to(y.np_dtype))


def sparse_sigmoid(x: Any) -> Any:
    """(x + 1) / 2, between 0 and 1.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.nn.sparse_sigmoid(jnp.array([-3.0, 0.0, 5.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return (0.5 * (_floats(x) + 1)).clamp(0, 1)


def __getattr__(name: str) -> Any:
    raise _missing("jax.nn", name)
