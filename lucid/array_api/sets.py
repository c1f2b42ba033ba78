"""Set functions. Every nan is distinct; of equal elements the gradient goes to the first."""

from typing import Any, NamedTuple

import lucid
from lucid.array_api.promotion import array
from lucid.core.tensor import Tensor


class UniqueAll(NamedTuple):
    """The distinct elements, where each first occurs, which one each element equals, and how often each occurs.

    >>> import lucid
    >>> lucid.unique_all(lucid.tensor([3, 1, 3]))._fields
    ('values', 'indices', 'inverse_indices', 'counts')
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The distinct elements and how often each occurs.

    >>> import lucid
    >>> lucid.unique_counts(lucid.tensor([3, 1, 3]))._fields
    ('values', 'counts')
    """

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The distinct elements and which of them each element equals.

    >>> import lucid
    >>> lucid.unique_inverse(lucid.tensor([3, 1, 3]))._fields
    ('values', 'inverse_indices')
    """

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements in ascending order, with all that is to be known about them.

    >>> import lucid
    >>> values, indices, inverse, counts = lucid.unique_all(lucid.tensor([3, 1, 3]))
    >>> values, indices, inverse, counts
    (Tensor([1, 3]), Tensor([1, 0]), Tensor([1, 0, 1]), Tensor([1, 2]))
    """
    found = array(x, "unique_all")
    values, inverse, counts = lucid.unique(found, return_inverse=True, return_counts=True)
    # A stable order of the numbers of groups begins each group with its first element.
    order = lucid.argsort(inverse.reshape(-1), stable=True)
    return UniqueAll(values, order[lucid.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements in ascending order, and how often each occurs.

    >>> import lucid
    >>> lucid.unique_counts(lucid.tensor([3, 1, 3])).counts
    Tensor([1, 2])
    """
    return UniqueCounts(*lucid.unique(array(x, "unique_counts"), return_counts=True))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements in ascending order, and which of them each element equals.

    >>> import lucid
    >>> lucid.unique_inverse(lucid.tensor([3, 1, 3])).inverse_indices
    Tensor([1, 0, 1])
    """
    return UniqueInverse(*lucid.unique(array(x, "unique_inverse"), return_inverse=True))


def unique_values(x: Any, /) -> Tensor:
    """The distinct elements in ascending order.

    >>> import lucid
    >>> lucid.unique_values(lucid.tensor([3, 1, 3]))
    Tensor([1, 3])
    """
    return lucid.unique(array(x, "unique_values"))
