"""Complex numbers and their parts: views of the real and imaginary ones, conjugates, angles."""

from typing import Any

import numpy as np

from lucid.backends.numpy import elementwise as arrays
from lucid.core import dtypes
from lucid.core.kernels import fill


def _angle_array(x: Any) -> Any:
    # For NumPy, a negative zero that is real lies on the negative axis.
    return np.angle(x) if x.dtype.kind == "c" else np.where(np.isnan(x), x, (x < 0) * x.dtype.type(np.pi))


def _complex_parts(x: Any, part: int) -> Any:
    out = np.zeros(x.shape, dtypes.complex_of(x.dtype))
    if part:
        out.imag = x
    else:
        out.real = x
    return out


def _as_real_array(x: Any) -> Any:
    # Seen by elements with a last dimension of size 1, memory in any order can be cut in two.
    return x[..., None].view(dtypes.real_of(x.dtype)) if x.dtype.kind == "c" else x


def _as_complex_array(x: Any) -> Any:
    if x.dtype.kind != "f":
        return x
    pairs = x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
    return pairs.view(dtypes.complex_of(x.dtype))[..., 0]


def _joined(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), dtypes.complex_of(x.dtype))
    out.real, out.imag = x, y
    return out


fill(
    {
        "sgn": lambda x: x.copy() if x.dtype.kind == "b" else arrays.sgn(x),
        "conj": lambda x: x.copy() if x.dtype.kind == "b" else np.conjugate(x),
        "angle": _angle_array,
        "real": lambda x: x.real,
        "imag": lambda x: x.imag,
        "complex_parts": _complex_parts,
        "view_as_real": _as_real_array,
        "view_as_complex": _as_complex_array,
        "complex": _joined,
        "isreal": lambda x: x.imag == 0 if x.dtype.kind == "c" else np.ones(x.shape, bool),
    }
)
