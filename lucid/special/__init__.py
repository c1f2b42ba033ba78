"""Special functions: SciPy's values, under PyTorch's names, with derivatives of every order by every operand.

>>> import lucid
>>> a = lucid.tensor([2.0], requires_grad=True)
>>> lucid.autograd.grad(lucid.special.gammainc(a, lucid.tensor([3.0])), a)
Tensor([-0.1974])
"""

from lucid.api import names as _names
from lucid.backends.numpy import special as _kernels  # noqa: F401 -- they fill the table
from lucid.ops import special as _declared  # noqa: F401 -- as primitives, by name

_ROWS = _names.special()
globals().update({name: row.value() for name, row in _ROWS.items()})
__all__ = sorted(_ROWS)
