"""How tensors print."""

from dataclasses import dataclass
from typing import Any

from lucid.core import dtypes
from lucid.core.kernels import table
from lucid.core.levels import capturing
from lucid.core.tensor import Tensor


@dataclass
class _Options:
    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 88


_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
) -> None:
    """Change how tensors print: digits, size above which they are cut, items kept at each edge, width.

    >>> import lucid
    >>> lucid.set_printoptions(precision=2)
    >>> lucid.tensor([0.12345])
    Tensor([0.12])
    >>> lucid.set_printoptions(precision=4)
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            if value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
            setattr(_options, name, value)


def _contents(tensor: Tensor, prefix: str) -> Any:
    """The elements as text; continuation lines are indented below `prefix`. A program that is traced serves for others."""
    if capturing():
        return f"traced: {tensor.dtype.name}{list(tensor.shape)}"
    return table["format"](tensor._array, prefix, **vars(_options))


def _describe(tensor: Tensor) -> str:
    """`Tensor([2., 4., 6.])`, with what is not the default behind the numbers."""
    prefix = f"{type(tensor).__name__}("
    notes = []
    if 0 in tensor.shape and tensor.shape != (0,):
        notes.append(f"shape={tensor.shape}")
    if tensor.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_):
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return prefix + ", ".join([tensor.describe_contents(prefix), *notes]) + ")"


Tensor.__repr__ = _describe  # type: ignore[assignment, method-assign]  # printing is no business of core
Tensor.describe_contents = _contents
