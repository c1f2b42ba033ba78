"""Probability distributions, under PyTorch's names: draws with gradients, densities, entropies and divergences.

>>> import lucid
>>> loc = lucid.tensor(1.0, requires_grad=True)
>>> normal = lucid.distributions.Normal(loc, 2.0)
>>> normal.log_prob(lucid.tensor(3.0)).backward()
>>> loc.grad
Tensor(0.5)
"""

from lucid.api.names import public as _public
from lucid.distributions import constraint_registry as constraint_registry
from lucid.distributions import constraints as constraints
from lucid.distributions import kl as kl
from lucid.distributions import transforms as transforms
from lucid.distributions.categorical import *
from lucid.distributions.circular import *
from lucid.distributions.constraint_registry import biject_to as biject_to
from lucid.distributions.constraint_registry import transform_to as transform_to
from lucid.distributions.distribution import Distribution as Distribution
from lucid.distributions.distribution import ExponentialFamily as ExponentialFamily
from lucid.distributions.gamma import *
from lucid.distributions.gaussian import *
from lucid.distributions.kl import *
from lucid.distributions.location_scale import *
from lucid.distributions.matrices import *
from lucid.distributions.relaxed import *
from lucid.distributions.tails import *
from lucid.distributions.transformed import *
from lucid.distributions.transformed_normal import *
from lucid.distributions.transforms import *
from lucid.distributions.trials import *

__all__ = _public(globals(), "constraint_registry", "constraints", "kl", "transforms")
