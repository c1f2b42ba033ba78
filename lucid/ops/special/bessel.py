"""Bessel functions and their kin: `by` counts how often they are differentiated."""

from typing import Any

from lucid.ops.categories import Elementwise
from lucid.ops.rules import P
from lucid.ops.special.declaration import declare


def _family(name: str, calls: str) -> Elementwise:
    def slope(x: Any, order: float, by: int) -> Any:
        return getattr(P, name)(x, order=order, by=by + 1)

    return declare(name, (slope,), calls=f"scipy.special.{calls}")


bessel_j = _family("bessel_j", "jv")
bessel_y = _family("bessel_y", "yv")
bessel_i = _family("bessel_i", "iv")
bessel_k = _family("bessel_k", "kv")
# e^(-|x|) I_n(x), whose kink at 0 gets the mean of both slopes, and e^x K_n(x).
scaled_bessel_i = _family("scaled_bessel_i", "ive")
scaled_bessel_k = _family("scaled_bessel_k", "kve")

# Those of order 0 and 1 that have code of their own.
i0 = declare("i0", (lambda x: P.i1(x),), calls="scipy.special.i0")
i1 = declare("i1", (lambda x: P.bessel_i(x, order=1, by=1),), calls="scipy.special.i1")
i0e = declare("i0e", (lambda x: P.scaled_bessel_i(x, order=0, by=1),), calls="scipy.special.i0e")
i1e = declare("i1e", (lambda x: P.scaled_bessel_i(x, order=1, by=1),), calls="scipy.special.i1e")

spherical_bessel_j = _family("spherical_bessel_j", "spherical_jn")
airy_ai = declare("airy_ai", (lambda x, by: P.airy_ai(x, by=by + 1),), calls="scipy.special.airy")
