"""Tensors as PyTorch prints them: as many digits for each number, exponents for all or for none."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.nn.parameter import Parameter

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: Any = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print: digits, size above which they are cut, items kept at each edge, width, exponents.

    >>> import lucid.torch as torch
    >>> torch.set_printoptions(precision=2, sci_mode=True)
    >>> torch.tensor([0.12345])
    tensor([1.23e-01])
    >>> torch.set_printoptions(profile="default")
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update(_PROFILES[profile] if profile is not None else {})
    _options.update({name: value for name, value in given.items() if value is not None}, sci_mode=sci_mode)


class _Column:
    """How the numbers of one tensor are written: all in one width."""

    def __init__(self, values: Any) -> None:
        self.digits = _options["precision"]
        self.is_float = values.dtype.kind == "f"
        self.is_whole, self.with_exponent, self.width = True, False, 1
        if not self.is_float:
            self.width = max([len(str(v)) for v in values.reshape(-1).tolist()], default=1)
            return
        wide = values.astype(np.float64).reshape(-1)
        wide = wide[np.isfinite(wide) & (wide != 0)]
        if wide.size:
            low, high = np.abs(wide).min(), np.abs(wide).max()
            self.is_whole = bool((wide == np.ceil(wide)).all())
            self.with_exponent = bool(high / low > 1000 or high > 1e8 or (not self.is_whole and low < 1e-4))
        if _options["sci_mode"] is not None:
            self.with_exponent = _options["sci_mode"]
        self.width = max([len(self._text(v)) for v in wide.tolist()], default=1)

    def _text(self, value: Any) -> str:
        if not self.is_float:
            return str(value)
        if self.with_exponent:
            return f"{value:.{self.digits}e}"
        if self.is_whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{self.digits}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


def _pairs(values: Any) -> tuple[Callable[[Any], str], int]:
    real, imaginary = _Column(values.real), _Column(values.imag)

    def write(value: Any) -> str:
        second = imaginary(value.imag).lstrip() + "j"
        return real(value.real) + (second if second[0] in "+-" else "+" + second)

    return write, real.width + imaginary.width + 1


def _edges(values: Any) -> Any:
    """What is shown of a large array: the first and last items along each dimension."""
    for dim in range(values.ndim):
        if values.shape[dim] > 2 * _options["edgeitems"]:
            kept = np.arange(_options["edgeitems"])
            values = np.take(values, np.concatenate([kept, kept - _options["edgeitems"]]), axis=dim)
    return values


def _written(values: Any, write: Callable[[Any], str], width: int, indent: int, cut: bool) -> str:
    if values.ndim == 0:
        return write(values.item())
    edge = _options["edgeitems"]
    is_cut = cut and values.shape[0] > 2 * edge
    kept = [*values[:edge], None, *values[-edge:]] if is_cut else list(values)
    if values.ndim > 1:
        parts = ["..." if v is None else _written(v, write, width, indent + 1, cut) for v in kept]
        return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
    items = [" ..." if v is None else write(v.item()) for v in kept]
    count = max(1, (_options["linewidth"] - indent) // (width + 2))
    lines = [", ".join(items[i : i + count]) for i in range(0, len(items), count)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _contents(array: Any, indent: int) -> str:
    values = np.asarray(array)
    if values.dtype.kind not in "biufc" or values.dtype == np.float16:  # bfloat16 is a type of its own
        values = values.astype(np.float32)
    cut = values.size > _options["threshold"]
    shown = _edges(values) if cut else values
    column = _Column(shown) if values.dtype.kind != "c" else None
    write, width = _pairs(shown) if column is None else (column, column.width)
    return _written(values, write, width, indent, cut)


def describe(tensor: Any) -> str:
    """`tensor([2., 4., 6.])`, with what is not the default behind the numbers."""
    default = dtypes.get_default_dtype()
    usual = {default, default.to_complex(), dtypes.int64, dtypes.bool_}
    notes = []
    if tensor.numel() == 0:
        text, usual = "[]", {default}
        if tensor.ndim != 1:
            notes.append(f"size={tuple(tensor.shape)}")
    else:
        text = _contents(tensor._array, len("tensor("))
    if tensor.dtype not in usual:
        notes.append(f"dtype={tensor.dtype!r}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    text, edge = "tensor(" + text, _options["linewidth"]
    last = len(text) - text.rfind("\n") + 1
    for note in notes:
        if last + len(note) + 2 > edge:
            text, last = f"{text},\n{' ' * len('tensor(')}{note}", len("tensor(") + len(note)
        else:
            text, last = f"{text}, {note}", last + len(note) + 2
    return ("Parameter containing:\n" if isinstance(tensor, Parameter) else "") + text + ")"
