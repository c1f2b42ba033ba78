"""Mixed precision: products in 16 bits inside `autocast`, and gradients scaled so that they do not vanish there."""

from lucid.amp.autocasting import autocast, is_autocast_available
from lucid.amp.functions import custom_bwd, custom_fwd
from lucid.amp.scaling import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
