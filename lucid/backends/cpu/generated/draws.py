"""Random numbers by generated loops, anywhere in a stream, and counts made of them by compiled ones."""

from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu import counts
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import draws as launch_draws
from lucid.backends.numpy.random import Choices, binomial_quantile, poisson_quantile
from lucid.codegen import lock
from lucid.core.kernels import fill

_COSTS = {"normal": 4.0, "integers": 4.0}  # nanoseconds for an element


@cache
def stream(name: str, dtype: np.dtype[Any], bits: int, digits: int) -> Any:
    """The loop for numbers of a recipe (`lucid.api.rng.Recipe`), or None where there is no code."""
    with lock:
        from lucid.codegen import bodies, compiled, draws  # loaded when first needed, and LLVM with it

        try:
            loop = draws.stream(draws.Draw(name, dtype, bits, digits), "stream")
            (address,), code = compiled.addresses([loop], "draw", name)
        except bodies.NotGeneratedError:
            return None
    return launch_draws.Stream(address, dtype, bits, _COSTS.get(name, 1.0), code)


if support.in_use:
    fill({"draw_from_stream": launch_draws.drawing(stream)}, "cpu", has_frames=True)
_choices = Choices(counts.extent, counts.picked)
fill(
    {
        "weighted_pick": _choices.pick,
        "require_weights": _choices.require,
        "poisson_quantile": lambda chance, rates: poisson_quantile(chance, rates, counts.added_up, counts.extent),
        "binomial_quantile": lambda chance, count, prob: binomial_quantile(chance, count, prob, counts.added_up),
    },
    "cpu",
)
