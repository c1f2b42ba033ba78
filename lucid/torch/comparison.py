"""`torch.testing`: whether values are equal up to rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid
from lucid.torch.tensors import adopted

# By type: as far as two ways of computing the same are usually apart.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless values, or all values in two nests, have one shape and type and |a - b| <= atol + rtol |b|.

    >>> import lucid.torch as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.1]))
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close! 1 of 1 elements differ, by up to 0.1...
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: give both rtol and atol, or neither")
    found = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, "")
    if found is not None:
        raise AssertionError(msg(found) if callable(msg) else found if msg is None else msg)


def _difference(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool, where: str) -> str | None:
    """What is wrong, or None."""
    rest = rtol, atol, equal_nan, check_dtype
    if isinstance(b, dict) and isinstance(a, dict):
        if a.keys() != b.keys():
            return f"The keys differ{where}: {sorted(map(str, a.keys() ^ b.keys()))}"
        pairs = [(f"{where}[{k!r}]", a[k], b[k]) for k in b]
    elif isinstance(b, (list, tuple)) and isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"The lengths differ{where}: {len(a)} and {len(b)}"
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(a, b, strict=True))]
    elif a is None or b is None:
        return None if a is b else f"{a} and {b} are not equal{where}"
    else:
        return _apart(a, b, *rest, where)
    return next((w for place, x, y in pairs if (w := _difference(x, y, *rest, place)) is not None), None)


def _apart(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool, where: str) -> str | None:
    x, y = (v.detach().resolve_conj() if isinstance(v, lucid.Tensor) else lucid.as_tensor(v) for v in (a, b))
    place = f" (at {where})" if where else ""
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {tuple(x.shape)} != {tuple(y.shape)}.{place}"
    if check_dtype and x.dtype != y.dtype and isinstance(a, lucid.Tensor):
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}.{place}"
    known = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (x, y)]
    relative, absolute = (max(pair) for pair in zip(*known, strict=True)) if rtol is None else (rtol, atol)
    kind = lucid.promote_types(x.dtype, y.dtype)
    wide = kind if kind.numpy.kind in "biuc" else lucid.float64
    left, right = (np.asarray(t.to(wide)._concrete("assert_close")) for t in (x, y))
    same = np.isclose(left, right, relative, absolute, equal_nan) if wide.numpy.kind in "fc" else left == right
    if same.all():
        return None
    with np.errstate(all="ignore"):
        worst = float(
            np.nanmax(np.abs(np.subtract(left[~same], right[~same], dtype=np.result_type(wide.numpy, np.float64))))
        )
    return (
        f"Tensor-likes are not close! {int((~same).sum())} of {same.size} elements differ, by up to {worst:g}.{place}"
    )


__all__ = ["assert_close"]


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, **_: Any) -> None:
    """The older `assert_close`, which looks at values alone.

    >>> import lucid.torch as torch
    >>> torch.testing.assert_allclose(torch.ones(2), 1.0)
    """
    there = lucid.as_tensor(expected, dtype=lucid.as_tensor(actual).dtype).expand(lucid.as_tensor(actual).shape)
    assert_close(lucid.as_tensor(actual), there, rtol=rtol, atol=atol, equal_nan=True)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of numbers for tests: drawn evenly from [low, high), by default [-9, 9), or whole numbers of the type.

    >>> import lucid.torch as torch
    >>> torch.testing.make_tensor(2, 3, dtype=torch.float64, device="cpu").shape
    torch.Size([2, 3])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    kind = lucid.zeros(0, dtype=dtype).dtype
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if kind.is_floating_point or kind.is_complex:
        first, last = -9.0 if low is None else low, 9.0 if high is None else high
        out = lucid.rand(wide, dtype=kind) * (last - first)
        out = out + (complex(first, first) if kind.is_complex else first)
    elif kind == lucid.bool:
        out = lucid.randint(0, 2, wide).bool()
    else:
        first = int(low) if low is not None else 0 if not kind.is_signed else -9
        out = lucid.randint(first, 10 if high is None else int(high), wide).to(kind)
    if exclude_zero:
        out = lucid.where(out == 0, lucid.ones_like(out), out)
    out = adopted(out[..., ::2] if noncontiguous and sizes else out)
    return out.detach().requires_grad_() if requires_grad else out
