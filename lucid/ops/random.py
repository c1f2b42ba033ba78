"""What turns uniform numbers into draws from other distributions, and the check of their arguments."""

from typing import Any

from lucid.core.dtypes import INT64
from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, same
from lucid.ops.categories import Check, Elementwise, elementwise_abstract
from lucid.ops.rules import align, batched_to_front

Elementwise(
    "poisson_quantile",
    (None, None),
    ("chance", "rates"),
    calls="scipy.special.pdtrik",
    checks=Check("that rates are not negative"),
)


def _batch_pick(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **params)


Primitive(
    "weighted_pick",
    operands=("weights", "chance"),
    batch=_batch_pick,
    abstract=lambda weights, chance, count, replacement: Abstract((*weights.shape[:-1], count), INT64),
    reason="a search",
    checks=Check("that weights are possible"),
)


binomial_quantile = Primitive(
    "binomial_quantile",
    operands=("chance", "count", "prob"),
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
    abstract=elementwise_abstract,
    reason="SciPy's distributions",
    checks=Check("that counts and probabilities are possible"),
)


class Requirement(Primitive):
    """A check that is made for its own sake: it stays in a program though nobody asks for its result."""

    lasting = True


# Truth values as they are, if all hold: under vmap, for all examples.
satisfied = Requirement(
    "satisfied",
    operands=("holds",),
    batch=lambda prim, values, batched, size, params: prim(values[0], **params),
    abstract=same,
    reason="a check",
    checks=Check("that arguments satisfy their constraints"),
)
