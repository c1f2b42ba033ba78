"""`jax.scipy.signal`: sums of products along signals and images.

>>> import lucid.jax as jax, lucid.jax.numpy as jnp
>>> jax.scipy.signal.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
Array([1., 3., 5., 3.], dtype=float32)
"""

from typing import Any

import numpy as np

from lucid.jax.arrays import DOOR
from lucid.jax.lax import windows

_MODES = ("full", "same", "valid")


def _slid(name: str, in1: Any, in2: Any, mode: str) -> Any:
    """Sums of products of one array with windows of the other, in any number of dimensions."""
    if mode not in _MODES:
        raise ValueError(f"{name}: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if in1.ndim != in2.ndim:
        raise ValueError(f"{name}: both must have the same number of dimensions, not {in1.ndim} and {in2.ndim}")
    padding = [(0 if mode == "valid" else n - 1,) * 2 for n in in2.shape]
    found = windows.conv_general_dilated(in1[None, None], in2[None, None], (1,) * in1.ndim, padding)[0, 0]
    if mode != "same":
        return found
    starts = [(n - 1) // 2 for n in in2.shape]
    return found[tuple(slice(s, s + n) for s, n in zip(starts, in1.shape, strict=True))]


def _turned(x: Any) -> Any:
    return DOOR.function(np.flip)(x)


def _prepared(name: str, in1: Any, in2: Any) -> tuple[Any, Any]:
    a, b = (DOOR.array(x) for x in (in1, in2))
    kind = DOOR.function(np.promote_types)(a.dtype, b.dtype)
    kind = kind if kind.kind in "fc" else np.dtype(np.float32)
    return a.astype(kind), b.astype(kind)


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """Σₖ in1[k] · in2[n - k]: of all places ("full"), of as many as `in1` has, or of those where both lie whole ("valid").

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.signal.convolve(jnp.arange(4.0), jnp.ones(3), mode="same")
    Array([1., 3., 6., 5.], dtype=float32)
    """
    a, b = _prepared("convolve", in1, in2)
    if mode == "valid" and b.shape > a.shape:
        a, b = b, a
    return _slid("convolve", a, _turned(b), mode)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """Σₖ in1[n + k] · conj(in2[k]).

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.signal.correlate(jnp.arange(4.0), jnp.array([1.0, 2.0]), mode="valid")
    Array([2., 5., 8.], dtype=float32)
    """
    a, b = _prepared("correlate", in1, in2)
    if mode == "valid" and b.shape > a.shape:
        return _turned(_slid("correlate", b.conj(), a, mode))
    return _slid("correlate", a, b.conj(), mode)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The same as `convolve`, whichever way is faster."""
    if axes is not None:
        raise NotImplementedError("fftconvolve: axes are not chosen; use jax.vmap for the others")
    return convolve(in1, in2, mode)


def _filled(name: str, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{name}: only zeros lie outside; pad the image with jax.numpy.pad instead")


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, **hints: Any
) -> Any:
    """`convolve` of images, with zeros outside."""
    _filled("convolve2d", boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, **hints: Any
) -> Any:
    """`correlate` of images, with zeros outside."""
    _filled("correlate2d", boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode)
    a, b = _prepared("correlate2d", in1, in2)  # of two places in the middle SciPy takes the other one here
    return _turned(convolve(_turned(a), b.conj(), mode))


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: int = 0, overwrite_data: Any = None) -> Any:
    """The data without their mean ("constant"), or without the straight line that fits them best ("linear").

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.signal.detrend(jnp.array([1.0, 2.0, 3.0]), type="constant")
    Array([-1.,  0.,  1.], dtype=float32)
    """
    x = DOOR.array(data)
    level = x - x.mean(axis, keepdims=True)
    if type == "constant":
        return level
    if type != "linear" or bp:
        raise NotImplementedError("detrend: type is 'constant' or 'linear', without break points")
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    time = DOOR.array(np.linspace(-1, 1, x.shape[axis]).reshape(shape).astype(x.dtype))
    return level - (level * time).sum(axis, keepdims=True) / (time**2).sum() * time


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve"]
