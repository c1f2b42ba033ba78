"""Regions in which the arguments and values of distributions lie.

A constraint says of a tensor which of its events lie in the region: `check` takes away the last `event_dim`
dimensions. `is_discrete` says that the region consists of single points.

>>> import lucid
>>> lucid.distributions.constraints.positive.check(lucid.tensor([1.0, -1.0]))
Tensor([ True, False])
>>> lucid.distributions.constraints.simplex.check(lucid.tensor([[0.5, 0.5], [0.5, 0.6]]))
Tensor([ True, False])
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import lucid
from lucid import Tensor

__all__ = """
    Constraint boolean cat corr_cholesky dependent dependent_property greater_than greater_than_eq independent
    integer_interval interval half_open_interval is_dependent less_than lower_cholesky lower_triangular
    MixtureSameFamilyConstraint multinomial nonnegative nonnegative_integer one_hot positive positive_semidefinite
    positive_definite positive_integer real real_vector simplex square stack symmetric unit_interval
""".split()


class Constraint:
    """A region of tensors."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Which events of `value` lie in the region."""
        raise NotImplementedError(f"{type(self).__name__} does not say what lies in it: define check(self, value)")

    def __repr__(self) -> str:
        return f"{type(self).__name__.strip('_')}({self._shown()})"

    def _shown(self) -> str:
        """What it was made with."""
        return ""


class _Dependent(Constraint):
    """A region that other arguments decide, so that the class alone does not know it."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> "_Dependent":
        discrete = self.is_discrete if is_discrete is None else is_discrete
        return _Dependent(is_discrete=discrete, event_dim=self.event_dim if event_dim is None else event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("what depends on other arguments cannot be checked alone; ask the instance for its constraint")


class dependent_property(property, _Dependent):
    """A property that gives a constraint; on the class it stands for one that is not known yet.

    >>> import lucid
    >>> d = lucid.distributions
    >>> d.constraints.is_dependent(d.Uniform.support), d.Uniform(0.0, 2.0).support.upper_bound
    (True, Tensor(2.))
    """

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any) -> "dependent_property":  # type: ignore[override]  # as a decorator with arguments
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is known only with other arguments.

    >>> import lucid
    >>> lucid.distributions.constraints.is_dependent(lucid.distributions.constraints.real)
    False
    """
    return isinstance(constraint, _Dependent)


def _all_of_last(holds: Tensor, dims: int) -> Tensor:
    return holds.flatten(-dims).all(-1) if dims else holds


# --- of single numbers -------------------------------------------------------------------------


class _Real(Constraint):
    lower_bound, upper_bound = -math.inf, math.inf

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Bounded(Constraint):
    """Numbers between bounds: one class for each choice of what belongs to the region."""

    lower_bound: Any = -math.inf
    upper_bound: Any = math.inf
    _bounds: tuple[str, ...] = ("lower_bound", "upper_bound")
    _open_below = _open_above = False

    def __init__(self, *bounds: Any) -> None:
        if len(bounds) != len(self._bounds):
            raise TypeError(f"{self.__class__.__name__.strip('_')} takes {' and '.join(self._bounds)}")
        self.__dict__.update(zip(self._bounds, bounds, strict=True))

    def check(self, value: Tensor) -> Tensor:
        parts = []
        if "lower_bound" in self._bounds:
            parts.append(value > self.lower_bound if self._open_below else value >= self.lower_bound)
        if "upper_bound" in self._bounds:
            parts.append(value < self.upper_bound if self._open_above else value <= self.upper_bound)
        if self.is_discrete:
            parts.append(value % 1 == 0)
        return reduce(lucid.logical_and, parts)

    def _shown(self) -> str:
        # Messages are made before anything is checked, so tensors are not printed in them.
        bounds = {name: getattr(self, name) for name in self._bounds}
        shown = {k: f"<tensor of shape {x.shape}>" if isinstance(x, Tensor) else x for k, x in bounds.items()}
        return ", ".join(f"{k}={x}" for k, x in shown.items())


class _GreaterThan(_Bounded):
    _bounds, _open_below = ("lower_bound",), True


class _GreaterThanEq(_Bounded):
    _bounds = ("lower_bound",)


class _LessThan(_Bounded):
    _bounds, _open_above = ("upper_bound",), True


class _Interval(_Bounded):
    pass


class _HalfOpenInterval(_Bounded):
    _open_above = True


class _IntegerInterval(_Bounded):
    is_discrete = True


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True


class _Boolean(Constraint):
    is_discrete = True
    lower_bound, upper_bound = 0, 1

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


# --- of vectors and matrices -------------------------------------------------------------------


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        tolerance = max(1e-6, 8 * lucid.finfo(value.dtype).eps)  # what normalised weights keep to
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < tolerance)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Counts that add up to at most `upper_bound`."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        tolerance = 10 * value.shape[-1] * lucid.finfo(value.dtype).eps
        norms = (value * value).sum(-1).sqrt()
        return super().check(value) & ((norms - 1).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        return value.new_full(value.shape[:-2], value.shape[-1] == value.shape[-2], dtype=lucid.bool)


class _Symmetric(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-1] != value.shape[-2]:
            return square.check(value)
        mirrored = value.transpose(-2, -1)
        return _all_of_last((value - mirrored).abs() <= 1e-6 + 1e-5 * mirrored.abs(), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (lucid.linalg.eigvalsh(value.detach()) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (lucid.linalg.cholesky_ex(value.detach()).info == 0)


# --- of other constraints ----------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """All of the last dimensions together satisfy a constraint."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ValueError(f"{self} is about tensors of at least {self.event_dim} dimensions, not {value.ndim}")
        return _all_of_last(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def _shown(self) -> str:
        return f"{self.base_constraint}, {self.reinterpreted_batch_ndims}"


class MixtureSameFamilyConstraint(Constraint):
    """What all components of a mixture allow.

    >>> import lucid
    >>> c = lucid.distributions.constraints
    >>> c.MixtureSameFamilyConstraint(c.positive).check(lucid.tensor([1.0, -1.0]))
    Tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def _shown(self) -> str:
        return f"{self.base_constraint}"


class _Joined(Constraint):
    """Constraints of parts along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)


class _Cat(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return lucid.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        self.event_dim += dim + self.event_dim < 0

    def check(self, value: Tensor) -> Tensor:
        return lucid.stack([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim), strict=True)], self.dim)


dependent = _Dependent()
independent, interval, half_open_interval, integer_interval = (
    _IndependentConstraint,
    _Interval,
    _HalfOpenInterval,
    _IntegerInterval,
)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
multinomial, cat, stack = _Multinomial, _Cat, _Stack
boolean, one_hot, real, simplex = _Boolean(), _OneHot(), _Real(), _Simplex()
real_vector = independent(real, 1)
positive, nonnegative, unit_interval = greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
