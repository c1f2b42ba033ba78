"""What layers that only call a function share."""

from collections.abc import Callable
from typing import Any, ClassVar

from lucid import Tensor
from lucid.nn.module import Module


class FunctionLayer(Module):
    """A layer that calls one function, which a subclass names, as in `function=functions.elu`.

    What its constructor takes are attributes of the layer and arguments of the function, by the same names. Those in
    `_shown` are printed. Handing them on by name costs half a microsecond, so layers that every network has call their
    function themselves.
    """

    _function: ClassVar[Callable[..., Any]]
    _settings: ClassVar[tuple[str, ...]] = ()
    _shown: tuple[str, ...] = ()

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if function is not None:
            code = cls.__init__.__code__
            cls._function = staticmethod(function)
            cls._settings = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    def _call(self, *operands: Any, **more: Any) -> Any:
        for name in self._settings:
            more[name] = getattr(self, name)
        return self._function(*operands, **more)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)


class OfOneTensor(FunctionLayer):
    """A layer whose function takes one tensor beside the settings."""

    def forward(self, input: Tensor) -> Tensor:
        return self._call(input)
