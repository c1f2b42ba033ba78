"""Rows for views as copies: those of the views, under other names."""

from dataclasses import replace

import samples_surface
from samples import ANY_TYPE, SHAPES, Array, Row, calls

import lucid

VIEWS = {row.name: row for row in [*SHAPES, *samples_surface.ROWS]}


def copied(name: str, of: str = "") -> Row:
    return replace(VIEWS[of or name], name=f"{name}_copy", op=getattr(lucid, f"{name}_copy"))


def sliced(x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    return x[(*(slice(None),) * (dim % x.ndim), slice(start, end, step))]


ROWS = [
    *[copied(name) for name in (
        "as_strided", "detach", "diagonal", "expand", "permute", "select", "split", "split_with_sizes", "squeeze", "t",
        "transpose", "unbind", "unfold", "unsqueeze", "view",
    )],
    copied("alias", of="clone"),
    Row("slice_copy", lucid.slice_copy, sliced, calls(((5, 2),), ((5,), 0, 1, 5, 2), ((2, 3), -1, None, -1),
        ((0, 3), 0, 1, 2)), **ANY_TYPE),
]  # fmt: skip
