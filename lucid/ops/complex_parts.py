"""Complex numbers and their parts: views of the real and imaginary ones, conjugates, angles.

A complex element is two real ones in memory. `view_as_real` shows them as a last dimension of size 2, and the real
and imaginary parts are slices of that, so that all of them can be written to.
"""

import math
from typing import Any

from lucid.arguments.promotion import BOOL, KEEP, cast, lift_all, refusal
from lucid.core import dtypes
from lucid.core.primitive import apply, lift
from lucid.core.storage import View
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, as_complex, real_part, same
from lucid.ops.categories import Elementwise, Pair, linear, view
from lucid.ops.elementwise import unary
from lucid.ops.rules import P, is_complex, zeros_like

_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy


def _sgn_derivative(ct: Any, x: Any, out: Any) -> Any:
    """Only the part of a change that turns x (at right angles to it) changes its direction."""
    if not is_complex(x):
        return zeros_like(ct)
    size = P.abs(x)
    turning = ct - out * P.real(P.conj(out) * ct)
    return P.where(size == 0, 0, turning / P.where(size == 0, 1, size))


def _sgn(x: Any) -> Any:
    if not is_complex(x):
        return P.sign(x)
    size = P.abs(x)
    return P.where(size == 0, 0, x / P.where(size == 0, 1, size))


sgn = unary(
    "sgn",
    Pair(_sgn_derivative),
    "x / |x|, and 0 at 0: the sign of real or complex numbers. | [3 + 4j, 0j] -> Tensor([0.6+0.8j, 0. +0.j ], dtype=lucid.complex64)",
    KEEP,
    body=_sgn,
)
conj = unary(
    "conj",
    Pair(lambda ct: P.conj(ct)),
    "Complex conjugate. | [1 + 2j] -> Tensor([1.-2.j], dtype=lucid.complex64)",
    KEEP,
    linear_in=(0,),
)


def _turn(x: Any) -> Any:
    """i·x / |x|²: how the angle of x changes."""
    size = P.abs(x)
    length = P.where(size == 0, 1, size)
    return P.where(size == 0, 0, 1j * (x / length / length))


angle = unary(
    "angle",
    Pair(
        lambda ct, x: ct * _turn(x) if is_complex(x) else zeros_like(ct),
        lambda t, x: P.real(t * P.conj(_turn(x))) if is_complex(x) else zeros_like(t),
    ),
    "The angle of each complex number in the plane. | [1j, -1.0 + 0j] -> Tensor([1.5708, 3.1416])",
    body=lambda x: P.atan2(P.imag(x), P.real(x)) if is_complex(x) else P.where(x < 0, math.pi, P.where(x != x, x, 0)),
)

# For derivative rules, which take parts of what nobody writes to.
real_part_primitive = view(
    "real",
    transpose=lambda ct: P.complex_parts(ct, part=0),
    batch=lambda x, size: P.real(x),
    abstract=real_part,
    is_scalar=True,
)
imaginary_part_primitive = view(
    "imag",
    transpose=lambda ct: P.complex_parts(ct, part=1),
    batch=lambda x, size: P.imag(x),
    abstract=real_part,
    is_scalar=True,
)


complex_parts_primitive = linear(
    "complex_parts",
    transpose=lambda ct, part: P.imag(ct) if part else P.real(ct),
    batch=lambda x, size, part: P.complex_parts(x, part=part),
    abstract=as_complex,
    is_scalar=True,
)


def _pairs(x: Abstract) -> Abstract:
    return Abstract((*x.shape, 2), dtypes.real_of(x.dtype)) if x.dtype.kind == "c" else same(x)


def _joined(x: Abstract) -> Abstract:
    return Abstract(x.shape[:-1], dtypes.complex_of(x.dtype)) if x.dtype.kind == "f" else same(x)


# Both show all of the memory. What is neither real nor complex is a mask of what a write covers, and that is all.
view(
    "view_as_real",
    transpose=lambda ct: P.view_as_complex(ct),
    batch=lambda x, size: P.view_as_real(x),
    abstract=_pairs,
)
view(
    "view_as_complex",
    transpose=lambda ct: P.view_as_real(ct),
    batch=lambda x, size: P.view_as_complex(x),
    abstract=_joined,
)


def _part(input: Any, k: int) -> Tensor:
    out: Tensor = P.slice(P.view_as_real(input), index=(..., k))
    return out


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor is its own real part.

    >>> import lucid
    >>> x = lucid.tensor([1 + 2j, 3 - 4j])
    >>> lucid.real(x)
    Tensor([1., 3.])
    >>> x.real[0] = 5
    >>> x
    Tensor([5.+2.j, 3.-4.j], dtype=lucid.complex64)
    """
    x = lift(input)
    return _part(x, 0) if x.is_complex() else x


def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view.

    >>> import lucid
    >>> lucid.imag(lucid.tensor([1 + 2j, 3 - 4j]))
    Tensor([ 2., -4.])
    """
    x = lift(input)
    if not x.is_complex():
        raise RuntimeError(f"imag needs a complex tensor, not {x.dtype}")
    return _part(x, 1)


def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones in a last dimension of size 2, in the same memory.

    >>> import lucid
    >>> lucid.view_as_real(lucid.tensor([1 + 2j, 3 - 4j]))
    Tensor([[ 1.,  2.],
            [ 3., -4.]])
    """
    x = lift(input)
    if not x.is_complex():
        raise RuntimeError(f"view_as_real needs a complex tensor, not {x.dtype}")
    out: Tensor = P.view_as_real(x)
    return out


def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of real numbers in the last dimension as complex ones, in the same memory.

    >>> import lucid
    >>> lucid.view_as_complex(lucid.tensor([[1.0, 2.0], [3.0, -4.0]]))
    Tensor([1.+2.j, 3.-4.j], dtype=lucid.complex64)
    """
    x = lift(input)
    if x.np_dtype not in (_F32, _F64):
        raise RuntimeError(f"view_as_complex needs a tensor of float32 or float64, not {x.dtype}")
    if not x.ndim or x.shape[-1] != 2:
        raise RuntimeError(f"view_as_complex needs a last dimension of size 2, not shape {x.shape}")
    out: Tensor = P.view_as_complex(x)
    if x.numel() and not isinstance(out._meta, View):
        raise RuntimeError("view_as_complex: the last dimension must lie in memory without gaps; use contiguous()")
    return out


complex_primitive = Elementwise(
    "complex",
    (
        Pair(lambda ct: P.real(ct), lambda t: P.complex_parts(t, part=0)),
        Pair(lambda ct: P.imag(ct), lambda t: P.complex_parts(t, part=1)),
    ),
    ("x", "y"),
    abstract=as_complex,
)


def _pair(name: str, first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Two tensors that make complex numbers, in the narrowest type for both that has a complex one."""
    x, y = lift_all(first, second)
    if x.np_dtype not in dtypes.FLOATING or y.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name} needs two tensors of floating-point types, not {x.dtype} and {y.dtype}")
    kind = _F64 if _F64 in (x.np_dtype, y.np_dtype) else _F32
    return cast(x, kind), cast(y, kind)


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i·imag.

    >>> import lucid
    >>> lucid.complex(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([1.+3.j, 2.+4.j], dtype=lucid.complex64)
    """
    x, y = _pair("complex", real, imag)
    try:
        out: Tensor = apply(complex_primitive, (x, y), {})
    except ValueError as error:
        raise refusal("complex", (x, y), error) from None
    return out


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs · (cos(angle) + i·sin(angle)).

    >>> import lucid
    >>> lucid.polar(lucid.tensor([2.0]), lucid.tensor([lucid.pi])).real
    Tensor([-2.])
    """
    size, turn = _pair("polar", abs, angle)
    return complex(size * P.cos(turn), size * P.sin(turn))


isreal = unary(
    "isreal",
    None,
    "Where elements have no imaginary part. | [1 + 0j, 2j] -> Tensor([ True, False])",
    BOOL,
    body=lambda x: P.imag(x) == 0 if is_complex(x) else True,
)


def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is still to be carried out: never, for `conj` computes.

    >>> import lucid
    >>> lucid.is_conj(lucid.tensor([1j]).conj())
    False
    """
    return False


def is_neg(input: Tensor) -> bool:
    """Whether a change of sign is still to be carried out: never.

    >>> import lucid
    >>> lucid.is_neg(lucid.tensor([1j]).conj().imag)
    False
    """
    return False


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor with its conjugation carried out: the tensor itself.

    >>> import lucid
    >>> lucid.resolve_conj(lucid.tensor([1j]).conj())
    Tensor([0.-1.j], dtype=lucid.complex64)
    """
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """The tensor with its change of sign carried out: the tensor itself.

    >>> import lucid
    >>> lucid.resolve_neg(lucid.tensor([1j]).imag)
    Tensor([1.])
    """
    return input


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element differs from 0.

    >>> import lucid
    >>> lucid.is_nonzero(lucid.tensor([0.0])), lucid.is_nonzero(lucid.tensor([2j]))
    (False, True)
    """
    return bool(input)
