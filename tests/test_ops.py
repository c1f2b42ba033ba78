"""The table: every row of `samples` under every check of `checks` that applies to it."""

import numpy as np
import pytest
from checks import planned
from samples import ROWS

PLAN = [
    pytest.param(row, check, dtype, id=f"{row.name}-{name}-{dtype}")
    for row in ROWS
    for name, check, dtype in planned(row)
]


@pytest.mark.parametrize(("row", "check", "dtype"), PLAN)
def test_op(row, check, dtype):
    # Infinities and nan are among the samples; NumPy's warnings about them are not of interest.
    with np.errstate(all="ignore"):
        check(row, dtype)
