"""Rows of a table, read by position or added up there, in compiled programs.

This is a stand-in for `table_rows.pyx`: eager calls are those of gathers and scatters (`backends.cpu.generated.embeddings`),
which give the same bits.

To be replaced by generated code: the loops of programs read and write no places that positions name.
"""

from typing import Any


def entry(size: int, count: int, bytes: int, skip: int | None, period: int, kind: Any) -> tuple[int, bytes]:
    """The entry point: its address and its task.

    It is for a table of `size` rows of so many bytes, and `count` positions. Rows are read, or, if their type is given,
    float32 or float64, added up, in the order of positions. Row `skip` of every `period` is 0, unless it is None.
    """
    raise RuntimeError("entry points need compiled code")
