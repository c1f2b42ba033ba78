"""Random numbers by generated loops, anywhere in a stream."""

from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import launch_draws, support
from lucid.codegen import lock
from lucid.core.kernels import fill

_COSTS = {"normal": 4.0}  # nanoseconds for an element


@cache
def _stream(name: str, dtype: np.dtype[Any], bits: int, digits: int) -> Any:
    with lock:
        from lucid.codegen import compiled, draws  # loaded when first needed, and LLVM with it

        loop = draws.stream(draws.Draw(name, dtype, bits, digits), "stream")
        (address,), code = compiled.addresses([loop], "draw", name)
    return launch_draws.Stream(address, dtype, bits, _COSTS.get(name, 1.0), code)


def draw(recipe: Any, seed: int, first: int, count: int) -> Any:
    """Numbers as a recipe (`lucid.api.rng.Recipe`) says, from a block of the stream of a seed on."""
    name, dtype, bits, digits, numbers = recipe
    return launch_draws.draw(_stream(name, dtype, bits, digits), seed, first, count, numbers)


if support.in_use:
    fill({"draw_from_stream": draw}, "cpu", has_frames=True)
