"""What layers for one, two and three spatial dimensions share."""

from inspect import cleandoc
from types import ModuleType
from typing import Any, ClassVar

from lucid.nn.layers.functions import FunctionLayer


class Spatial(FunctionLayer):
    """The base of layers that exist for each number of spatial dimensions.

    A family is a subclass that names its function, as in `functions=pooling, stem="max_pool"`. Its members give their
    number of dimensions, `n=2`; each takes the function of that number and adds the family's docstring to its own.
    """

    _n: ClassVar[int]
    _template: ClassVar[str] = ""
    _family: ClassVar[tuple[ModuleType, str]]

    def __init_subclass__(cls, functions: ModuleType | None = None, stem: str = "", n: int = 0, **rest: Any) -> None:
        if functions is not None:
            cls._family = functions, stem
        module, stem = getattr(cls, "_family", (None, ""))
        function = getattr(module, f"{stem}{n}d" if stem != "pad" else stem) if n else None
        super().__init_subclass__(function, **rest)
        if "{name}" in (cls.__doc__ or ""):
            # The example is the members'; the family itself has none that could run.
            cls._template = cleandoc(cls.__doc__ or "")
            cls.__doc__ = cls._template.partition("\n\n>>>")[0]
        if n:
            cls._n = n
            _document(cls, n)


def _document(cls: type, n: int) -> None:
    """Complete a docstring by that of the family, with {name}, {n} and sizes such as {s4} ("4, 4") filled in."""
    template = getattr(cls.__base__, "_template", "") or cleandoc(cls.__base__.__doc__ or "")
    if cls.__doc__ and template:
        sizes = {f"s{k}": ", ".join([str(k)] * n) for k in range(1, 10)}
        cls.__doc__ = f"{cls.__doc__}\n\n{template.format(name=cls.__name__, n=n, **sizes)}\n"
