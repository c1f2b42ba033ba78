"""Products with logarithms, and their limits at 0."""

from lucid.ops.rules import P
from lucid.special.functions import one, two

entr = one(P.entr, "-x log(x): 0 at 0, and -inf for negative numbers. | [0.0, 0.5] -> Tensor([0.    , 0.3466])")
xlog1py = two(
    P.xlog1py,
    "input · log(1 + other), and 0 where input is 0. | [0.0, 2.0]; [-1.0, 1.0] -> Tensor([0.    , 1.3863])",
)
