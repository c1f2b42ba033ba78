"""Updates in place by generated loops: what optimizers do to parameters and their state."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import updates as launch_updates
from lucid.codegen import lock
from lucid.core import kernels
from lucid.kinds.kind import NeedsValueError
from lucid.ops.expressions import NotScalarError


def is_generated() -> bool:
    """Whether updates are generated here and now."""
    return support.in_use and "cpu" in kernels.in_use


def update_of(
    function: Callable[..., Sequence[Any]], dtype: np.dtype[Any], operands: int, numbers: int, name: str
) -> Any:
    """The loop that computes results of `function(operands, numbers)`, which takes expressions; None if there is none."""
    with lock:
        from lucid.codegen import bodies, compiled, updates  # loaded when first needed, and LLVM with it

        try:
            plan = updates.UpdatePlan(function, dtype, operands, numbers)
            (address,), code = compiled.update(plan, name)
        except (bodies.NotGeneratedError, NotScalarError, NeedsValueError):
            return None
    arrays = operands + len(plan.bodies)
    return launch_updates.Update(address, dtype, arrays, numbers, plan.cost, code)
