"""`jax.random`: random numbers as pure functions of keys.

A key is that of a Philox stream (see `lucid.api.rng`): two uint32, which `key` puts into one element (`lucid.jax.keys`) and
`PRNGKey` into an array. The distributions are JAX's; the bits are not.
Draws from one key are the same each time, also inside `vmap` over keys, `grad` and `jit`.

>>> import lucid.jax as jax
>>> key = jax.random.key(0)
>>> a, b = jax.random.split(key)
>>> bool((jax.random.normal(a, (3,)) == jax.random.normal(a, (3,))).all()), bool((a == b).all())
(True, False)
"""

import math
from typing import Any

import numpy as np

from lucid import linalg as _linalg
from lucid import special as _special
from lucid.api import joining, reductions, rng, shaping, sorting
from lucid.autograd import Function
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.jax.absences import missing as _missing
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.jax.keys import Keys
from lucid.ops import binary, unary
from lucid.ops.rules import P

# Where the streams of split and fold_in begin: far behind what is drawn.
_SPLIT, _FOLD = 1 << 60, 1 << 61
_UINT32, _WORDS = np.dtype(np.uint32), np.dtype(np.uint64)
_SOURCES = {s.name: s for s in (rng.UNIFORM, rng.OPEN_UNIFORM, rng.NORMAL, rng.WORDS)}


def _stream(key: Any, start: int) -> rng.Generator:
    generator = rng.Generator()
    generator.set_state((int(key[0]) << 32 | int(key[1]), start))
    return generator


def _drawn(key: Any, source: str, shape: tuple[int, ...], kind: np.dtype[Any], start: int) -> Any:
    return _SOURCES[source].sample(_stream(key, start), math.prod(shape), kind).reshape(shape)


class _Draw(Function):
    """Numbers of a source from the stream of a key, or of each key of a batch its own."""

    @staticmethod
    def forward(ctx: Any, key: Any, source: str, shape: Any, kind: Any) -> Any:
        return Tensor._wrap(_drawn(np.asarray(key), source, shape, kind, 0))


def _keyed(key: Any, source: str, shape: Any, kind: Any) -> Any:
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(int(n) for n in shape)
    return DOOR.adopted(_Draw.apply(_checked(key), source, sizes, np.dtype(kind)))


def _checked(key: Any) -> Any:
    found = key.data if isinstance(key, Keys) else DOOR.array(key)
    if not isinstance(found, Tensor) or found.np_dtype != _UINT32 or tuple(found.shape) != (2,):
        raise TypeError(
            "expected a key, as jax.random.key(seed) makes it; several take vmap, as in jax.vmap(jax.random.normal)(keys)"
        )
    return found


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """The key of a seed, as an array of two numbers.

    >>> import lucid.jax as jax
    >>> jax.random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    if isinstance(seed, Tensor) and seed._level:
        low = seed.to(np.dtype(np.uint32))
        return joining.stack([low * 0, low])
    value = int(seed) % (1 << 64)
    return DOOR.wrapped(np.array([value >> 32, value & 0xFFFFFFFF], np.uint32))


def key(seed: Any, *, impl: Any = None) -> Keys:
    """The key of a seed, as one element.

    >>> import lucid.jax as jax
    >>> jax.random.key(7).shape, jax.random.split(jax.random.key(7), 3).shape
    ((), (3,))
    """
    return Keys(PRNGKey(seed))


def key_data(keys: Any) -> Any:
    """The two numbers that each key is.

    >>> import lucid.jax as jax
    >>> jax.random.key_data(jax.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return keys.data if isinstance(keys, Keys) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> Keys:
    """Keys of pairs of numbers.

    >>> import lucid.jax as jax
    >>> jax.random.wrap_key_data(jax.random.PRNGKey(7)) == jax.random.key(7)
    Array(True, dtype=bool)
    """
    found = DOOR.array(key_bits_array)
    if found.np_dtype != _UINT32 or tuple(found.shape[-1:]) != (2,):
        raise TypeError(f"wrap_key_data: expected pairs of uint32, not {found.dtype} of shape {found.shape}")
    return Keys(found)


def key_impl(keys: Any) -> str:
    """How numbers are made of keys.

    >>> import lucid.jax as jax
    >>> jax.random.key_impl(jax.random.key(0))
    'philox'
    """
    return "philox"


def _as_given(made: Any, key: Any) -> Any:
    """New keys in the form of the one that they were made of."""
    return Keys(made) if isinstance(key, Keys) else made


def clone(key: Any) -> Any:
    """The key."""
    return key


def _halves(words: Any) -> Any:
    """Words of 64 bits as pairs of 32."""
    return np.stack([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)], -1).astype(np.uint32)


class _New(Function):
    """New keys from the stream of one."""

    @staticmethod
    def forward(ctx: Any, key: Any, data: Any, shape: Any) -> Any:
        start = _SPLIT if data is None else _FOLD + int(np.asarray(data)) % (1 << 32)
        return DOOR.wrapped(_halves(_drawn(np.asarray(key), "words", shape, _WORDS, start)))


def split(key: Any, num: Any = 2) -> Any:
    """New keys, whose draws have nothing to do with each other.

    >>> import lucid.jax as jax
    >>> jax.random.split(jax.random.key(0), 3).shape, jax.random.split(jax.random.PRNGKey(0), 3).shape
    ((3,), (3, 2))
    """
    shape = (num,) if hasattr(num, "__index__") else tuple(num)
    return _as_given(_New.apply(_checked(key), None, shape), key)


def fold_in(key: Any, data: Any) -> Any:
    """The key that belongs to a number.

    >>> import lucid.jax as jax
    >>> jax.random.fold_in(jax.random.key(0), 3).shape
    ()
    """
    return _as_given(_New.apply(_checked(key), lift(DOOR.array(data)), ()), key)


def _float(dtype: Any) -> np.dtype[Any]:
    kind = canonical(np.dtype(float if dtype is None else dtype))
    if kind.kind not in "fcV":
        raise ValueError(f"expected a type of floats, not {kind}")
    return kind


def _shape_of(shape: Any, *operands: Any) -> tuple[int, ...]:
    """The shape that is given, or that of the parameters."""
    if shape is not None:
        return (shape,) if hasattr(shape, "__index__") else tuple(shape)
    return tuple(np.broadcast_shapes(*(tuple(getattr(o, "shape", ())) for o in operands)))


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Random bits, as uint32 or another type of unsigned numbers."""
    kind = np.dtype(np.uint32 if dtype is None else dtype)
    sizes = _shape_of(shape)
    return _Bits.apply(_checked(key), sizes, canonical(kind))


class _Bits(Function):
    """The low bits of the words of a stream."""

    @staticmethod
    def forward(ctx: Any, key: Any, shape: Any, kind: Any) -> Any:
        return DOOR.wrapped(_drawn(np.asarray(key), "words", shape, _WORDS, 0).astype(kind))


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Numbers drawn evenly between two, which may be arrays.

    >>> import lucid.jax as jax
    >>> x = jax.random.uniform(jax.random.key(0), (1000,), minval=2.0, maxval=4.0)
    >>> bool((x >= 2).all() and (x < 4).all())
    True
    """
    drawn = _keyed(key, "uniform", shape, _float(dtype))
    if isinstance(minval, (float, int)) and isinstance(maxval, (float, int)) and (minval, maxval) == (0, 1):
        return drawn
    return minval + drawn * (maxval - minval)


def _open(key: Any, shape: Any, dtype: Any) -> Any:
    """Numbers between 0 and 1, neither of which occurs."""
    kind = _float(dtype)
    wide = kind if kind.itemsize > 2 else np.dtype(np.float32)
    return _keyed(key, "open_uniform", shape, wide).astype(kind)


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the normal distribution of mean 0 and variance 1.

    >>> import lucid.jax as jax
    >>> jax.random.normal(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _keyed(key, "normal", shape, _float(dtype))


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """True with the given probability.

    >>> import lucid.jax as jax
    >>> jax.random.bernoulli(jax.random.key(0), 1.0, (2,))
    Array([ True,  True], dtype=bool)
    """
    return uniform(key, _shape_of(shape, p)) < p


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Whole numbers from `minval` up to but not including `maxval`.

    >>> import lucid.jax as jax
    >>> x = jax.random.randint(jax.random.key(0), (100,), 3, 7)
    >>> int(x.min()), int(x.max()), x.dtype
    (3, 6, dtype('int32'))
    """
    kind = canonical(np.dtype(int if dtype is None else dtype))
    low, high = (lift(DOOR.array(v)).to(np.dtype(np.int64)) for v in (minval, maxval))
    # 53 bits are more than enough of a fraction for numbers of 32.
    fraction = _keyed_doubles(key, _shape_of(shape))
    span = binary.maximum(high - low, 1)
    return (low + unary.floor(fraction * span.to(np.dtype(np.float64))).to(np.dtype(np.int64))).to(kind)


def _keyed_doubles(key: Any, shape: tuple[int, ...]) -> Any:
    return _Draw.apply(_checked(key), "uniform", shape, np.dtype(np.float64))


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Numbers from the standard Gumbel distribution."""
    return -unary.log(-unary.log(_open(key, shape, dtype)))


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the exponential distribution of rate 1."""
    return -unary.log(_open(key, shape, dtype))


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the standard Laplace distribution."""
    u = 2 * _open(key, shape, dtype) - 1
    return -unary.sign(u) * unary.log1p(-unary.abs(u))


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the standard logistic distribution."""
    return _special.logit(_open(key, shape, dtype))


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the standard Cauchy distribution."""
    return unary.tan(math.pi * (_open(key, shape, dtype) - 0.5))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Rayleigh distribution."""
    return scale * unary.sqrt(2 * exponential(key, _shape_of(shape, scale), dtype))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the Pareto distribution."""
    return unary.exp(exponential(key, _shape_of(shape, b), dtype) / b)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from the Weibull distribution."""
    return binary.pow(exponential(key, shape, dtype), 1.0 / concentration) * scale


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """-1 or 1, equally likely."""
    kind = canonical(np.dtype(int if dtype is None else dtype))
    return 2 * bernoulli(key, 0.5, shape).astype(kind) - 1


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Standard normal numbers between two bounds.

    >>> import lucid.jax as jax
    >>> x = jax.random.truncated_normal(jax.random.key(0), -1.0, 2.0, (1000,))
    >>> bool((x >= -1).all() and (x <= 2).all())
    True
    """
    kind = _float(dtype)
    low, high = (_special.ndtr(lift(DOOR.array(b)).to(kind)) for b in (lower, upper))
    u = _open(key, _shape_of(shape, lower, upper), kind)
    return binary.minimum(binary.maximum(_special.ndtri(low + u * (high - low)), lower), upper)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the gamma distribution of rate 1; differentiable by `a`, as quantiles are."""
    kind = _float(dtype)
    concentration = lift(DOOR.array(a)).to(kind)
    u = _open(key, _shape_of(shape, concentration), kind)
    return _special.gammaincinv(concentration, u)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the beta distribution."""
    kind = _float(dtype)
    first, second = (lift(DOOR.array(v)).to(kind) for v in (a, b))
    return _special.betaincinv(first, second, _open(key, _shape_of(shape, first, second), kind))


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of numbers from the gamma distribution."""
    return unary.log(gamma(key, a, shape, dtype))


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Exponentials of normal numbers."""
    return unary.exp(sigma * normal(key, _shape_of(shape, sigma), dtype))


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Lengths of normal vectors of three dimensions."""
    return reductions.norm(normal(key, (*_shape_of(shape), 3), dtype), 2, -1)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell's lengths with a random sign, scaled and moved."""
    one, two = split(key)
    sizes = (*_shape_of(shape), *_shape_of(None, loc, scale))
    return rademacher(two, sizes).astype(np.float32) * maxwell(one, sizes, dtype) * DOOR.array(scale) + DOOR.array(loc)


def generalized_normal(key: Any, p: float, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers with a density in proportion to exp(-|x|^p)."""
    one, two = split(key)
    return rademacher(two, shape).astype(np.float32) * gamma(one, 1 / p, shape, dtype) ** (1 / p)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from Fisher's F-distribution."""
    one, two = split(key)
    sizes = _shape_of(shape, dfnum, dfden)
    top = chisquare(one, dfnum, shape=sizes) / DOOR.array(dfnum)
    return top / (chisquare(two, dfden, shape=sizes) / DOOR.array(dfden))


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from Wald's (the inverse normal) distribution of scale 1."""
    one, two = split(key)
    sizes = _shape_of(shape, mean)
    mu = lift(DOOR.array(mean))
    y = normal(one, sizes, dtype) ** 2
    x = mu + mu**2 * y / 2 - mu / 2 * unary.sqrt(4 * mu * y + (mu * y) ** 2)
    return binary.where(uniform(two, sizes, dtype) <= mu / (mu + x), x, mu**2 / x)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many trials the first success takes."""
    kind = canonical(np.dtype(int if dtype is None else dtype))
    u = _open(key, _shape_of(shape, p), None)
    return (unary.floor(unary.log(u) / unary.log1p(-lift(DOOR.array(p)))) + 1).astype(kind)


def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the triangular distribution."""
    u = _open(key, _shape_of(shape, left, mode, right), dtype)
    rise, fall, width = mode - left, right - mode, right - left
    low = left + unary.sqrt(u * width * rise)
    return binary.where(u < rise / width, low, right - unary.sqrt((1 - u) * width * fall))


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers from the chi-squared distribution."""
    return 2 * gamma(key, 0.5 * DOOR.array(df), shape, dtype)


def t(key: Any, df: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers from Student's distribution."""
    first, second = split(key)
    sizes = _shape_of(shape, df)
    return normal(first, sizes, dtype) * unary.sqrt(df / chisquare(second, df, sizes, dtype))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Points of the simplex from the Dirichlet distribution."""
    concentration = DOOR.array(alpha)
    sizes = tuple(concentration.shape[:-1]) if shape is None else _shape_of(shape)
    drawn = gamma(key, concentration, (*sizes, concentration.shape[-1]), dtype)
    return drawn / reductions.sum(drawn, -1, True)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Counts of events whose expected number is given."""
    rate = lift(DOOR.array(lam)).to(np.dtype(np.float64))
    sizes = _shape_of(shape, rate)
    chance = _Draw.apply(_checked(key), "open_uniform", sizes, np.dtype(np.float64))
    found = P.poisson_quantile(chance, shaping.broadcast_to(rate.detach(), sizes))
    return found.to(canonical(np.dtype(int if dtype is None else dtype)))


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, mode: Any = None
) -> Any:
    """Indices drawn with the probabilities that unnormalised logarithms give.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.random.categorical(jax.random.key(0), jnp.array([[0.0, 100.0], [100.0, 0.0]]))
    Array([1, 0], dtype=int32)
    """
    x = DOOR.array(logits)
    dim = axis % x.ndim
    batch = tuple(n for d, n in enumerate(x.shape) if d != dim)
    sizes = batch if shape is None else _shape_of(shape)
    lead = len(sizes) - len(batch)
    if sizes[lead:] != batch:
        raise ValueError(f"categorical: shape {sizes} must end in {batch}")
    x = shaping.movedim(x, dim, -1)
    if not replace:
        count = math.prod(sizes[:lead])
        noisy = x + gumbel(key, tuple(x.shape), x.np_dtype)
        best = sorting.topk(noisy, count, -1).indices
        return DOOR.adopted(shaping.reshape(shaping.movedim(best, -1, 0), sizes))
    noise = gumbel(key, (*sizes, x.shape[-1]), x.np_dtype)
    return DOOR.adopted(reductions.argmax(x + noise, -1))


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False, **hints: Any) -> Any:
    """Numbers up to `x`, or the parts of an array, in random order.

    >>> import lucid.jax as jax
    >>> sorted(jax.random.permutation(jax.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    if not isinstance(x, (Tensor, np.ndarray)):
        return DOOR.adopted(sorting.argsort(_keyed_doubles(key, (int(x),)), 0))
    items = DOOR.array(x)
    if not items.ndim:
        return permutation(key, int(items))
    dim = axis % items.ndim
    if independent:
        order = sorting.argsort(_keyed_doubles(key, tuple(items.shape)), dim)
        return DOOR.function(np.take_along_axis)(items, order, dim)
    return DOOR.function(np.take)(items, sorting.argsort(_keyed_doubles(key, (items.shape[dim],)), 0), dim)


shuffle = permutation


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: Any = None
) -> Any:
    """Elements of `a`, or numbers up to it, drawn with or without putting them back.

    >>> import lucid.jax as jax
    >>> sorted(jax.random.choice(jax.random.key(0), 5, (5,), replace=False).tolist())
    [0, 1, 2, 3, 4]
    """
    items = DOOR.array(a) if isinstance(a, (Tensor, np.ndarray)) and np.ndim(a) else None
    size = int(a) if items is None else items.shape[axis]
    sizes = _shape_of(shape)
    count = math.prod(sizes)
    if p is None:
        if replace:
            places = randint(key, (count,), 0, size)
        elif count > size:
            raise ValueError(f"choice: {count} of {size} elements cannot be drawn without putting them back")
        else:
            places = permutation(key, size)[:count]
    else:
        weights = unary.log(DOOR.array(p))
        places = categorical(key, weights, shape=(count,), replace=replace)
    if items is None:
        return places.reshape(sizes)
    found = DOOR.function(np.take)(items, places, axis)
    dim = axis % items.ndim
    return found.reshape((*items.shape[:dim], *sizes, *items.shape[dim + 1 :]))


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Normal vectors of given means and covariances."""
    centre, matrix = DOOR.array(mean), DOOR.array(cov)
    sizes = (
        np.broadcast_shapes(tuple(centre.shape[:-1]), tuple(matrix.shape[:-2])) if shape is None else _shape_of(shape)
    )
    if method == "cholesky":
        factor = _linalg.cholesky(matrix)
    elif method == "eigh":
        values, vectors = _linalg.eigh(matrix)
        factor = vectors * unary.sqrt(values).unsqueeze(-2)
    else:
        raise ValueError(f"multivariate_normal: method is cholesky or eigh, not {method!r}")
    noise = normal(key, (*sizes, centre.shape[-1]), dtype)
    return centre + (factor @ noise.unsqueeze(-1)).squeeze(-1)


def ball(key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points drawn evenly from the unit ball of the p-norm."""
    first, second, third = split(key, 3)
    sizes = _shape_of(shape)
    sides = binary.pow(gamma(first, DOOR.array(np.full((*sizes, d), 1 / p)), None, dtype), 1 / p) * rademacher(
        second, (*sizes, d)
    )
    total = reductions.sum(binary.pow(unary.abs(sides), p), -1) + exponential(third, sizes, dtype)
    return sides / binary.pow(total, 1 / p).unsqueeze(-1)


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Orthogonal matrices, all equally likely."""
    columns = n if m is None else m
    sizes = _shape_of(shape)
    found, upper = _linalg.qr(normal(key, (*sizes, max(n, columns), min(n, columns)), dtype))
    signs = unary.sign(upper.diagonal(0, -2, -1)).unsqueeze(-2)
    out = found * signs
    return out if n >= columns else out.mT


__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "weibull_min",
    "wrap_key_data",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    raise _missing("jax.random", name)
