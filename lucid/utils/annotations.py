"""Names for what functions take, in annotations of programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lucid.core.device import device
from lucid.core.dtypes import dtype
from lucid.core.tensor import Tensor

Scalar = bool | int | float | complex
TensorOrScalar = Tensor | Scalar
TensorLike = Tensor | np.ndarray | Scalar | Sequence[Any]
DeviceLike = device | str | None
DTypeLike = dtype | str | type | None
ShapeLike = int | Sequence[int]
StateDict = dict[str, Tensor] | Mapping[str, Tensor]


@runtime_checkable
class HasShape(Protocol):
    """What has a shape and a number of dimensions.

    >>> import lucid
    >>> isinstance(lucid.zeros(2), lucid.HasShape), isinstance(2, lucid.HasShape)
    (True, False)
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def ndim(self) -> int: ...


@runtime_checkable
class SupportsNumpyConversion(Protocol):
    """What gives its elements as an array of NumPy.

    >>> import lucid
    >>> isinstance(lucid.zeros(2), lucid.SupportsNumpyConversion)
    True
    """

    def numpy(self) -> Any: ...


@runtime_checkable
class SupportsGrad(Protocol):
    """What takes part in backward passes.

    >>> import lucid
    >>> isinstance(lucid.zeros(2), lucid.SupportsGrad)
    True
    """

    @property
    def requires_grad(self) -> bool: ...

    def backward(self) -> None: ...

    def detach(self) -> Any: ...


@runtime_checkable
class TensorLikeProtocol(HasShape, SupportsNumpyConversion, SupportsGrad, Protocol):
    """All of these at once.

    >>> import lucid
    >>> isinstance(lucid.zeros(2), lucid.TensorLikeProtocol)
    True
    """
