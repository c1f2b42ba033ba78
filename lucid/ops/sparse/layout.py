"""How the elements of a tensor are stored."""

from functools import cache
from typing import Any


class layout:
    """How the elements of a tensor are stored: all of them by strides, or some of them with their positions.

    >>> import lucid
    >>> lucid.eye(2).layout, lucid.eye(2).to_sparse().layout
    (lucid.strided, lucid.sparse_coo)
    """

    def __init__(self, name: str, home: str) -> None:
        self.name = name
        self.home = home  # the library under whose name it is printed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, layout) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{self.home}.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name, self.home)


@cache
def named(name: str, home: str) -> layout:
    """The layout of a name; the same one each time."""
    return layout(name, home)


strided, sparse_coo = named("strided", "lucid"), named("sparse_coo", "lucid")
sparse_csr, sparse_csc = named("sparse_csr", "lucid"), named("sparse_csc", "lucid")
