"""Transforms from all of the real line, or space, to a region: `biject_to` by bijections, `transform_to` by any map.

>>> import lucid
>>> d = lucid.distributions
>>> d.transform_to(d.Normal.arg_constraints["scale"])(lucid.tensor([0.0, 1.0]))
Tensor([1.    , 2.7183])
"""

from collections.abc import Callable
from typing import Any

from lucid.distributions import constraints
from lucid.distributions.constraints import Constraint
from lucid.distributions.joint_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
from lucid.distributions.transform import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one of them.

    >>> import lucid
    >>> d = lucid.distributions
    >>> registry = d.constraint_registry.ConstraintRegistry()
    >>> _ = registry.register(d.constraints.positive, lambda constraint: d.SoftplusTransform())
    >>> registry(d.constraints.positive)(lucid.tensor(0.0))
    Tensor(0.6931)
    """

    def __init__(self) -> None:
        self._factories: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Say what makes the transform for a class of constraints, given or that of an instance; also as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, Constraint):
            raise TypeError(f"register: expected a constraint or a class of constraints, not {constraint!r}")
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        factory = self._factories.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"no transform is registered for constraints like {constraint!r}")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _to_real(constraint: Constraint) -> Transform:
    return identity_transform


def _above(constraint: Any) -> Transform:
    if isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _of_parts(registry: ConstraintRegistry) -> dict[Any, Factory]:
    """The constraints that are made of others."""

    def independent(constraint: Any) -> Transform:
        return IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Transform:
        return CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    return {constraints.independent: independent, constraints.cat: cat, constraints.stack: stack}


_BOTH: dict[Any, Factory] = {
    constraints.real: _to_real,
    constraints.greater_than: _above,
    constraints.greater_than_eq: _above,
    constraints.less_than: _below,
    constraints.interval: _between,
    constraints.half_open_interval: _between,
    constraints.corr_cholesky: lambda constraint: CorrCholeskyTransform(),
}
_BIJECTIONS: dict[Any, Factory] = {constraints.simplex: lambda constraint: StickBreakingTransform()}
_MAPS: dict[Any, Factory] = {
    constraints.simplex: lambda constraint: SoftmaxTransform(),
    constraints.lower_cholesky: lambda constraint: LowerCholeskyTransform(),
    constraints.positive_definite: lambda constraint: PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda constraint: PositiveDefiniteTransform(),
}
for _registry, _own in ((biject_to, _BIJECTIONS), (transform_to, _MAPS)):
    for _constraint, _factory in {**_BOTH, **_of_parts(_registry), **_own}.items():
        _registry.register(_constraint, _factory)
