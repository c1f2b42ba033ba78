"""Random numbers by generated loops, anywhere in a stream."""

from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import draws as launch_draws
from lucid.codegen import lock
from lucid.core.kernels import fill

_COSTS = {"normal": 4.0}  # nanoseconds for an element


@cache
def _stream(name: str, dtype: np.dtype[Any], bits: int, digits: int) -> Any:
    with lock:
        from lucid.codegen import bodies, compiled, draws  # loaded when first needed, and LLVM with it

        try:
            loop = draws.stream(draws.Draw(name, dtype, bits, digits), "stream")
            (address,), code = compiled.addresses([loop], "draw", name)
        except bodies.NotGeneratedError:
            return None
    return launch_draws.Stream(address, dtype, bits, _COSTS.get(name, 1.0), code)


def draw(recipe: Any, seed: int, first: int, count: int) -> Any:
    """Numbers as a recipe (`lucid.api.rng.Recipe`) says, from a block of the stream of a seed on; None without code."""
    name, dtype, bits, digits, numbers = recipe
    loop = _stream(name, dtype, bits, digits)
    return None if loop is None else launch_draws.draw(loop, seed, first, count, numbers)


if support.in_use:
    fill({"draw_from_stream": draw}, "cpu", has_frames=True)
