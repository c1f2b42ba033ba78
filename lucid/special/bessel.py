"""Bessel functions and their kin."""

from collections.abc import Callable
from typing import Any

from lucid.api.inplace import inplace
from lucid.arguments.promotion import FLOAT
from lucid.ops.categories import Elementwise
from lucid.ops.elementwise import called
from lucid.ops.rules import P
from lucid.special.functions import one

airy_ai = one(P.airy_ai, "The Airy function Ai(x). | [0.0, 1.0] -> Tensor([0.355 , 0.1353])", by=0)

i0, i1, i0e, i1e, modified_bessel_i0, modified_bessel_i1 = (
    one(prim, f"{text} of order {order}. | [1.0, 2.0] -> Tensor([{result}])", name=name)
    for prim, text, order, name, result in (
        (P.i0, "Modified Bessel function of the first kind", 0, "i0", "1.2661, 2.2796"),
        (P.i1, "Modified Bessel function of the first kind", 1, "i1", "0.5652, 1.5906"),
        (P.i0e, "exp(-|x|) times the modified Bessel function of the first kind", 0, "i0e", "0.4658, 0.3085"),
        (P.i1e, "exp(-|x|) times the modified Bessel function of the first kind", 1, "i1e", "0.2079, 0.2153"),
        (P.i0, "Modified Bessel function of the first kind", 0, "modified_bessel_i0", "1.2661, 2.2796"),
        (P.i1, "Modified Bessel function of the first kind", 1, "modified_bessel_i1", "0.5652, 1.5906"),
    )
)
bessel_j0, bessel_j1, bessel_y0, bessel_y1, *_modified = (
    one(family, f"{text} of order {order}. | [1.0, 2.0] -> Tensor([{result}])", name=name, order=order, by=0)
    for family, text, order, name, result in (
        (P.bessel_j, "Bessel function of the first kind", 0, "bessel_j0", "0.7652, 0.2239"),
        (P.bessel_j, "Bessel function of the first kind", 1, "bessel_j1", "0.4401, 0.5767"),
        (P.bessel_y, "Bessel function of the second kind", 0, "bessel_y0", "0.0883, 0.5104"),
        (P.bessel_y, "Bessel function of the second kind", 1, "bessel_y1", "-0.7812, -0.107 "),
        (P.bessel_k, "Modified Bessel function of the second kind", 0, "modified_bessel_k0", "0.421 , 0.1139"),
        (P.bessel_k, "Modified Bessel function of the second kind", 1, "modified_bessel_k1", "0.6019, 0.1399"),
        (P.scaled_bessel_k, "exp(x) times the modified Bessel function of the second kind", 0,
         "scaled_modified_bessel_k0", "1.1445, 0.8416"),
        (P.scaled_bessel_k, "exp(x) times the modified Bessel function of the second kind", 1,
         "scaled_modified_bessel_k1", "1.6362, 1.0335"),
        (P.spherical_bessel_j, "Spherical Bessel function of the first kind", 0, "spherical_bessel_j0", "0.8415, 0.4546"),
    )
)  # fmt: skip
(
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
) = _modified
i0_ = inplace(i0)


def _of_any_order(family: Elementwise, name: str, kind: str, result: str) -> Callable[..., Any]:
    def op(v: float, z: Any) -> Any:
        if not isinstance(v, int | float):
            raise TypeError(
                f"{name}: the order must be a Python number, not {type(v).__name__}: the derivative by the order is no "
                "Bessel function"
            )
        return called(family, (z,), FLOAT, {"order": v, "by": 0})

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"""{kind} of any real order `v`, a number.

    >>> import lucid
    >>> lucid.special.{name}(2, lucid.tensor([1.0]))
    Tensor([{result}])
    """
    return op


jv = _of_any_order(P.bessel_j, "jv", "Bessel function of the first kind", "0.1149")
yv = _of_any_order(P.bessel_y, "yv", "Bessel function of the second kind", "-1.6507")
iv = _of_any_order(P.bessel_i, "iv", "Modified Bessel function of the first kind", "0.1357")
kv = _of_any_order(P.bessel_k, "kv", "Modified Bessel function of the second kind", "1.6248")
ive = _of_any_order(
    P.scaled_bessel_i, "ive", "exp(-|z|) times the modified Bessel function of the first kind", "0.0499"
)
kve = _of_any_order(P.scaled_bessel_k, "kve", "exp(z) times the modified Bessel function of the second kind", "4.4168")
