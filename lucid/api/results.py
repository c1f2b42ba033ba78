"""What functions give that have several results: tuples whose entries have names."""

from typing import NamedTuple

from lucid.core.tensor import Tensor


class ValuesIndices(NamedTuple):
    """What functions that choose elements along a dimension give: the elements and where they stood.

    Each of these functions has a class of its own.

    >>> import lucid
    >>> found = lucid.tensor([3.0, 1.0]).max(0)
    >>> found
    Max(values=Tensor(3.), indices=Tensor(0))
    >>> isinstance(found, ValuesIndices)
    True
    """

    values: Tensor
    indices: Tensor


class Max(ValuesIndices):
    """What `max` gives along a dimension."""

    __slots__ = ()


class Min(ValuesIndices):
    """What `min` gives along a dimension."""

    __slots__ = ()


class Cummax(ValuesIndices):
    """What `cummax` gives."""

    __slots__ = ()


class Cummin(ValuesIndices):
    """What `cummin` gives."""

    __slots__ = ()


class Sort(ValuesIndices):
    """What `sort` gives."""

    __slots__ = ()


class Topk(ValuesIndices):
    """What `topk` gives."""

    __slots__ = ()


class Kthvalue(ValuesIndices):
    """What `kthvalue` gives."""

    __slots__ = ()


class Median(ValuesIndices):
    """What `median` gives along a dimension."""

    __slots__ = ()


class Nanmedian(ValuesIndices):
    """What `nanmedian` gives along a dimension."""

    __slots__ = ()


class Mode(ValuesIndices):
    """What `mode` gives."""

    __slots__ = ()


class StdMean(NamedTuple):
    """A standard deviation and the mean that it is measured from."""

    std: Tensor
    mean: Tensor


class VarMean(NamedTuple):
    """A variance and the mean that it is measured from."""

    var: Tensor
    mean: Tensor


class Aminmax(NamedTuple):
    """The smallest and the largest element."""

    min: Tensor
    max: Tensor
