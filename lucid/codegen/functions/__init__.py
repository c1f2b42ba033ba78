"""The elementary functions by name, each written for vectors of float and of double.

In float they are within 2 units in the last place (erfinv within 2.5), in double within 4, over the whole range, and
exact where C's are: at infinities, nan, zeros with their signs. In double, inverses, scaled tails and scaled Bessel
functions are within 7. Nothing in them depends on the number of lanes or on the processor.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

from lucid.codegen.vectors import Value

_NAMES = {
    "exponentials": "exp exp2 expm1 tanh sigmoid sinh cosh erf erfc ndtr gelu",
    "logarithms": "log log2 log10 log1p log_odds log_sigmoid asinh acosh atanh",
    "trigonometry": "sin cos tan asin acos atan atan2",
    "powers": "pow cbrt hypot",
    "roots": "rsqrt",
    "normal": "erfinv erfcinv ndtri erfcx log_ndtr",
    "gammas": "lgamma digamma",
    "bessels": "i0 i0e i1 i1e",
}


class _Functions(Mapping[str, Callable[..., Value]]):
    """What writes a function, by its name; the module that has it is imported when it is asked for."""

    def __init__(self) -> None:
        self._homes = {name: home for home, names in _NAMES.items() for name in names.split()}

    def __getitem__(self, name: str) -> Callable[..., Value]:
        found: Callable[..., Value] = getattr(import_module(f"{__package__}.{self._homes[name]}"), name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


FUNCTIONS = _Functions()
