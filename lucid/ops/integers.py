"""Functions of whole numbers."""

from lucid.ops.elementwise import binary
from lucid.ops.promotion import INTEGRAL

gcd = binary(
    "gcd",
    (None, None),
    "The greatest number that divides both. | [12, 5]; [18, 0] -> Tensor([6, 5])",
    INTEGRAL,
)
lcm = binary(
    "lcm",
    (None, None),
    "The least positive number that both divide. | [4, 5]; [6, 0] -> Tensor([12,  0])",
    INTEGRAL,
)
