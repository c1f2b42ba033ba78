"""Invertible maps of tensors, with the determinants of their Jacobians.

A transform maps its `domain` to its `codomain`: `t(x)` forwards, `t.inv(y)` backwards, and
`t.log_abs_det_jacobian(x, y)` has the logarithm of the volume that it makes of a unit of volume.

>>> import lucid
>>> t = lucid.distributions.transforms.ExpTransform()
>>> t(lucid.tensor(1.0)), t.inv(lucid.tensor(2.7182817)), t.log_abs_det_jacobian(lucid.tensor(1.0), None)
(Tensor(2.7183), Tensor(1.), Tensor(1.))
"""

import math
from collections.abc import Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.distributions import constraints
from lucid.distributions.constraints import Constraint
from lucid.distributions.distribution import Distribution, Shape, sum_last

__all__ = """
    AbsTransform AffineTransform ComposeTransform CumulativeDistributionTransform ExpTransform IndependentTransform
    PowerTransform ReshapeTransform SigmoidTransform SoftplusTransform TanhTransform Transform identity_transform
""".split()


class Transform:
    """A map with an inverse; with `cache_size` 1 the inverse of the latest value is what it was made of.

    Subclasses have `_call`, `_inverse` and `log_abs_det_jacobian`. If `bijective` is False, the inverse gives one of
    several values. `sign` is that of the slope of a map of numbers.

    >>> import lucid
    >>> class Cube(lucid.distributions.Transform):
    ...     bijective, sign = True, 1
    ...     domain = codomain = lucid.distributions.constraints.real
    ...     def _call(self, x):
    ...         return x**3
    >>> Cube()(lucid.tensor(2.0))
    Tensor(8.)
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size must be 0 or 1, not {cache_size!r}")
        self._cache_size = cache_size
        self._latest: tuple[Any, Any] = (None, None)
        self._inv: Transform | None = None

    def _arguments(self) -> tuple[Any, ...]:
        """What the transform was made of, besides `cache_size`; transforms of the same are equal."""
        return ()

    @property
    def sign(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is no monotonous map of numbers: its slope has no sign")

    @property
    def event_dim(self) -> int:
        """The number of last dimensions that are mapped together, if it is the same on both sides."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{type(self).__name__}: ask its domain or its codomain for event_dim: they differ")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> "Transform":
        """The inverse; `t.inv.inv` is `t`."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> "Transform":
        """The same with or without memory of the latest value."""
        if self._cache_size == cache_size:
            return self
        kind: Any = type(self)  # whose arguments are those of a subclass
        made: Transform = kind(*self._arguments(), cache_size=cache_size)
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or (type(self)._arguments is Transform._arguments and not self._plain()):
            return self is other
        mine, others = self._arguments(), other._arguments()
        return all(_same(a, b) for a, b in zip(mine, others, strict=True))

    __hash__ = object.__hash__

    def _plain(self) -> bool:
        """Whether nothing but the class makes the transform."""
        return type(self).__init__ is Transform.__init__

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._latest[0]:
            return self._latest[1]
        return self._keep(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._latest[1]:
            return self._latest[0]
        return self._keep(self._inverse(y), y)[0]

    def _keep(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self._cache_size:
            self._latest = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward map")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det ∂y/∂x|."""
        raise NotImplementedError(f"{type(self).__name__} has no determinant of a Jacobian")

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the result for an operand of this shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of the operand for a result of this shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        a, b = lucid.as_tensor(a), lucid.as_tensor(b)
        return a.shape == b.shape and bool((a == b).all())
    return bool(a == b)


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Transform = transform

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)

    def _arguments(self) -> tuple[Any, ...]:
        return (self._inv,)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    >>> import lucid
    >>> d = lucid.distributions
    >>> d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()])(lucid.tensor(0.0))
    Tensor(2.7183)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.parts,)

    def _widest(self, parts: Sequence[Transform], into: str, out_of: str) -> Constraint:
        """The constraint at the end of `parts`, about as many dimensions as any of them needs."""
        if not parts:
            return constraints.real
        dims = getattr(parts[0], into).event_dim
        for part in parts:
            dims += getattr(part, out_of).event_dim - getattr(part, into).event_dim
            dims = max(dims, getattr(part, out_of).event_dim)
        found: Constraint = getattr(parts[-1], out_of)
        extra = dims - found.event_dim
        return constraints.independent(found, extra) if extra else found

    @property
    def domain(self) -> Constraint:
        return self._widest(self.parts[::-1], "codomain", "domain")

    @property
    def codomain(self) -> Constraint:
        return self._widest(self.parts, "domain", "codomain")

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return lucid.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        dims, terms = self.domain.event_dim, []
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            found = part.log_abs_det_jacobian(before, after)
            terms.append(sum_last(found, dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform that counts further last dimensions as one event: their determinants are multiplied.

    >>> import lucid
    >>> d = lucid.distributions
    >>> t = d.IndependentTransform(d.ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(lucid.tensor([1.0, 2.0]), None)
    Tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)
        self.bijective = base_transform.bijective

    def _arguments(self) -> tuple[Any, ...]:
        return self.base_transform, self.reinterpreted_batch_ndims

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last dimensions in another shape.

    >>> import lucid
    >>> lucid.distributions.ReshapeTransform((4,), (2, 2))(lucid.arange(4))
    Tensor([[0, 1],
            [2, 3]])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"ReshapeTransform: {self.in_shape} and {self.out_shape} have different numbers of elements"
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _arguments(self) -> tuple[Any, ...]:
        return self.in_shape, self.out_shape

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return lucid.zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype)

    def forward_shape(self, shape: Shape) -> Shape:
        return _with_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _with_end(shape, self.out_shape, self.in_shape)


def _with_end(shape: Shape, old: Shape, new: Shape) -> Shape:
    cut = len(shape) - len(old)
    if cut < 0 or shape[cut:] != old:
        raise ValueError(f"ReshapeTransform: a shape that ends in {old} was expected, not {shape}")
    return shape[:cut] + new


# --- of single numbers -------------------------------------------------------------------------


class Elementwise(Transform):
    """A growing map of the real line."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = 1


class ExpTransform(Elementwise):
    """y = exp(x).

    >>> import lucid
    >>> lucid.distributions.ExpTransform().inv(lucid.tensor(1.0))
    Tensor(0.)
    """

    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(Elementwise):
    """y = 1 / (1 + exp(-x)), kept strictly between 0 and 1.

    >>> import lucid
    >>> lucid.distributions.SigmoidTransform()(lucid.tensor(0.0))
    Tensor(0.5)
    """

    codomain: Any = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return lucid.log_sigmoid(x) + lucid.log_sigmoid(-x)


def _inside(y: Tensor) -> Tensor:
    info = lucid.finfo(y.dtype)
    return y.clamp(info.tiny, 1 - info.eps)


class SoftplusTransform(Elementwise):
    """y = log(1 + exp(x)).

    >>> import lucid
    >>> lucid.distributions.SoftplusTransform()(lucid.tensor(0.0))
    Tensor(0.6931)
    """

    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return -lucid.log_sigmoid(-x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return lucid.log_sigmoid(x)


class TanhTransform(Elementwise):
    """y = tanh(x).

    >>> import lucid
    >>> lucid.distributions.TanhTransform().log_abs_det_jacobian(lucid.tensor(20.0), None)
    Tensor(-38.6137)
    """

    codomain: Any = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * math.log(2) + lucid.log_sigmoid(2 * x) + lucid.log_sigmoid(-2 * x)


class AbsTransform(Transform):
    """y = |x|, of which the inverse gives the positive x.

    >>> import lucid
    >>> lucid.distributions.AbsTransform()(lucid.tensor(-2.0))
    Tensor(2.)
    """

    domain: Any = constraints.real
    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """y = x^exponent, for positive x.

    >>> import lucid
    >>> lucid.distributions.PowerTransform(2.0)(lucid.tensor(3.0))
    Tensor(9.)
    """

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _arguments(self) -> tuple[Any, ...]:
        return (self.exponent,)

    @property
    def sign(self) -> Any:
        return _sign(self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape


def _sign(x: Any) -> Any:
    return x.sign() if isinstance(x, Tensor) else (x > 0) - (x < 0)


def _broadcast(shape: Shape, *arguments: Any) -> Shape:
    return lucid.broadcast_shapes(shape, *[getattr(x, "shape", ()) for x in arguments])


class AffineTransform(Transform):
    """y = loc + scale · x, elementwise; `event_dim` says how many last dimensions are one event.

    >>> import lucid
    >>> lucid.distributions.AffineTransform(1.0, 2.0)(lucid.tensor([0.0, 1.0]))
    Tensor([1., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    def _arguments(self) -> tuple[Any, ...]:
        return self.loc, self.scale, self.event_dim

    @property
    def sign(self) -> Any:
        return _sign(self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs = self.scale.abs().log() if isinstance(self.scale, Tensor) else x.new_full((), math.log(abs(self.scale)))
        shape = lucid.broadcast_shapes(x.shape, logs.shape)
        return sum_last(logs.to(x.dtype).expand(shape), self.event_dim)

    def forward_shape(self, shape: Shape) -> Shape:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution: draws from it become uniform.

    >>> import lucid
    >>> d = lucid.distributions
    >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(lucid.tensor(0.0))
    Tensor(0.5)
    """

    bijective, sign = True, 1
    codomain: Any = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _arguments(self) -> tuple[Any, ...]:
        return (self.distribution,)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
