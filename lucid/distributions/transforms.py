"""All transforms by name."""

from lucid.api.names import public as _public
from lucid.distributions.joint_transforms import *
from lucid.distributions.transform import *

__all__ = _public(globals())
