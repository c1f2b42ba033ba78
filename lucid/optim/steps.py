"""Steps of optimizers as one loop over memory. Compiled (steps.pyx) they are used; as Python they say what they do."""

from math import sqrt
from typing import Any


def adam(
    p: Any, g: Any, m: Any, v: Any, decay: float, decays: int,
    weight1: float, keep2: float, weight2: float, eps: float, rate: float, tiny: float,
) -> None:  # fmt: skip
    """A whole step of Adam: m follows g, v follows g², and p goes by rate · m / (√v + eps).

    decay · p is first added to g (if `decays` is 1) or at last to what p goes by (if 2). Averages below `tiny` become 0.
    """
    for i in range(p.shape[0]):
        x = g[i]
        if decays == 1:
            x = x + decay * p[i]
        m[i] += weight1 * (x - m[i])
        m[i] = 0 if -tiny < m[i] < tiny else m[i]
        v[i] = keep2 * v[i] + weight2 * (x * x)
        v[i] = 0 if v[i] < tiny else v[i]
        x = sqrt(v[i])
        x = m[i] / (x + eps) * rate
        if decays == 2:
            x = x + decay * p[i]
        p[i] -= x
