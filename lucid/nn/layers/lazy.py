"""Layers that learn the size of their input from the first one.

Until then their parameters are `UninitializedParameter`s: objects that an optimizer may hold, without elements. The first
call, or loading a state, gives them their contents and makes the layer one of the ordinary class.
"""

import inspect
from typing import Any, ClassVar

import lucid
from lucid import Tensor
from lucid.nn.layers.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from lucid.nn.layers.linear import Linear
from lucid.nn.layers.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from lucid.nn.module import Module
from lucid.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from lucid.nn.registry import BUFFER, BUFFERS, PARAMETER
from lucid.nn.state import Errors

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear", "LazyModuleMixin",
]  # fmt: skip


class LazyModuleMixin:
    """For modules whose parameters are made at the first call, by `initialize_parameters` with its arguments.

    Then the class of the module becomes `cls_to_become`, if there is one.

    >>> import lucid
    >>> from lucid.nn import Module, UninitializedParameter
    >>> from lucid.nn.layers.lazy import LazyModuleMixin
    >>> class Scale(LazyModuleMixin, Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.factor.materialize(x.shape[-1:])
    ...         lucid.nn.init.ones_(self.factor)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale.has_uninitialized_params(), scale(lucid.ones(2, 3)).shape, scale.has_uninitialized_params()
    (True, (2, 3), False)
    """

    cls_to_become: ClassVar[Any] = None

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their contents; called with the arguments of the first call."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters method; define it in the class")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module still waits for its size."""
        return any(is_lazy(value) for _, value in self._own(PARAMETER, *BUFFERS))  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.has_uninitialized_params() or self.cls_to_become is not None:
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise RuntimeError(f"{type(self).__name__}.initialize_parameters left parameters without contents")
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)  # type: ignore[misc]  # of the module


class _Lazy(LazyModuleMixin, Module):
    """A layer for which its ordinary class, made with the size that was missing, has the parameters."""

    _missing: ClassVar[str]  # the first argument of the ordinary class
    _dim: ClassVar[int]  # the dimension of inputs that has the size
    _unknown: ClassVar[Any] = None  # what stands for it
    _defaults: ClassVar[dict[str, Any]] = {}  # arguments that are not as in the ordinary class unless they are given

    def __init_subclass__(cls, missing: str = "", dim: int = 0, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if not missing:
            return
        eager = cls.__bases__[1]
        cls.cls_to_become, cls._missing, cls._dim = eager, missing, dim
        given = inspect.signature(eager)
        cls.__signature__ = given.replace(parameters=list(given.parameters.values())[1:])  # type: ignore[attr-defined]
        cls.__doc__ = (
            f"{eager.__name__} that takes `{missing}` from dimension {dim} of its first input.\n\n{cls.__doc__}"
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self._defaults:
            kwargs = self._defaults | inspect.signature(type(self)).bind_partial(*args, **kwargs).arguments
            args = ()
        with lucid.fork_rng():
            eager = self.cls_to_become(0, *args, **kwargs)  # which knows what parameters there are
        Module.__init__(self)
        self._given = (args, kwargs)
        self._take_settings(eager)
        setattr(self, self._missing, self._unknown)
        for name, value in eager._own(PARAMETER):
            self.register_parameter(name, None if value is None else UninitializedParameter(dtype=value.dtype))
        for name, value in eager._own(BUFFER):
            waits = value is not None and value.ndim
            self.register_buffer(name, UninitializedBuffer(dtype=value.dtype) if waits else value)

    def _take_settings(self, eager: Any) -> None:
        held = {*eager._kinds, "_kinds", "training"}
        for name, value in vars(eager).items():
            if name not in held:
                object.__setattr__(self, name, value)

    def initialize_parameters(self, input: Tensor) -> None:
        """Make parameters and buffers for inputs of this shape."""
        args, kwargs = self._given
        self._complete(self.cls_to_become(input.shape[self._dim], *args, **kwargs))

    def _complete(self, eager: Any) -> None:
        """Take over what a layer of the ordinary class has."""
        self._take_settings(eager)
        for name, value in eager._own(PARAMETER, *BUFFERS):
            held = getattr(self, name)
            if is_lazy(held):
                held.materialize(value.shape)
                with lucid.no_grad():
                    held.copy_(value)
            elif value is not None:
                held.data = value.to(held.dtype)
        object.__delattr__(self, "_given")

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._own(PARAMETER, BUFFER):
            if is_lazy(value):
                del destination[prefix + name]

    def _size_in(self, state: dict[str, Any], prefix: str) -> int | None:
        """The missing size, if a state tells it."""
        weight = state.get(f"{prefix}weight")
        if self._missing == "num_features":
            found = (state.get(prefix + name) for name in ("weight", "running_mean", "bias"))
            return next((int(v.shape[0]) for v in found if v is not None and v.ndim == 1), None)
        if weight is None or weight.ndim < 2:
            return None
        if getattr(self, "transposed", False):
            return int(weight.shape[0])
        return int(weight.shape[1]) * int(getattr(self, "groups", 1))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        size = self._size_in(state_dict, prefix)
        if size is None:
            super()._load_from_state_dict(state_dict, prefix, *arguments)
            return
        args, kwargs = self._given
        eager = self.cls_to_become(size, *args, **kwargs)
        eager._load_from_state_dict(state_dict, prefix, *arguments)

        def complete() -> None:
            self._complete(eager)
            self.__class__ = self.cls_to_become

        errors = arguments[-1]
        if isinstance(errors, Errors):
            errors.writes.append(complete)  # behind those that give the other layer its values
        else:
            complete()


class LazyLinear(_Lazy, Linear, missing="in_features", dim=-1):
    """
    >>> import lucid
    >>> from lucid.nn import LazyLinear
    >>> layer = LazyLinear(2)
    >>> layer(lucid.ones(5, 3)).shape, layer
    ((5, 2), Linear(in_features=3, out_features=2, bias=True))
    """


class LazyConv1d(_Lazy, Conv1d, missing="in_channels", dim=-2):
    """
    >>> import lucid
    >>> lucid.nn.LazyConv1d(4, 3)(lucid.ones(2, 3, 8)).shape
    (2, 4, 6)
    """


class LazyConv2d(_Lazy, Conv2d, missing="in_channels", dim=-3):
    """
    >>> import lucid
    >>> lucid.nn.LazyConv2d(4, 3)(lucid.ones(2, 3, 8, 8)).shape
    (2, 4, 6, 6)
    """


class LazyConv3d(_Lazy, Conv3d, missing="in_channels", dim=-4):
    """
    >>> import lucid
    >>> lucid.nn.LazyConv3d(4, 3)(lucid.ones(2, 3, 4, 4, 4)).shape
    (2, 4, 2, 2, 2)
    """


class LazyConvTranspose1d(_Lazy, ConvTranspose1d, missing="in_channels", dim=-2):
    """
    >>> import lucid
    >>> lucid.nn.LazyConvTranspose1d(4, 3)(lucid.ones(2, 3, 6)).shape
    (2, 4, 8)
    """


class LazyConvTranspose2d(_Lazy, ConvTranspose2d, missing="in_channels", dim=-3):
    """
    >>> import lucid
    >>> lucid.nn.LazyConvTranspose2d(4, 3)(lucid.ones(2, 3, 6, 6)).shape
    (2, 4, 8, 8)
    """


class LazyConvTranspose3d(_Lazy, ConvTranspose3d, missing="in_channels", dim=-4):
    """
    >>> import lucid
    >>> lucid.nn.LazyConvTranspose3d(4, 3)(lucid.ones(2, 3, 2, 2, 2)).shape
    (2, 4, 4, 4, 4)
    """


class LazyBatchNorm1d(_Lazy, BatchNorm1d, missing="num_features", dim=1):
    """
    >>> import lucid
    >>> lucid.nn.LazyBatchNorm1d()(lucid.rand(4, 3)).shape
    (4, 3)
    """


class LazyBatchNorm2d(_Lazy, BatchNorm2d, missing="num_features", dim=1):
    """
    >>> import lucid
    >>> lucid.nn.LazyBatchNorm2d()(lucid.rand(4, 3, 2, 2)).shape
    (4, 3, 2, 2)
    """


class LazyBatchNorm3d(_Lazy, BatchNorm3d, missing="num_features", dim=1):
    """
    >>> import lucid
    >>> lucid.nn.LazyBatchNorm3d()(lucid.rand(4, 3, 2, 2, 2)).shape
    (4, 3, 2, 2, 2)
    """


class LazyInstanceNorm1d(_Lazy, InstanceNorm1d, missing="num_features", dim=-2):
    """
    >>> import lucid
    >>> lucid.nn.LazyInstanceNorm1d(affine=True)(lucid.rand(4, 3, 5)).shape
    (4, 3, 5)
    """


class LazyInstanceNorm2d(_Lazy, InstanceNorm2d, missing="num_features", dim=-3):
    """
    >>> import lucid
    >>> lucid.nn.LazyInstanceNorm2d(affine=True)(lucid.rand(4, 3, 2, 5)).shape
    (4, 3, 2, 5)
    """


class LazyInstanceNorm3d(_Lazy, InstanceNorm3d, missing="num_features", dim=-4):
    """
    >>> import lucid
    >>> lucid.nn.LazyInstanceNorm3d(affine=True)(lucid.rand(4, 3, 2, 5, 2)).shape
    (4, 3, 2, 5, 2)
    """
