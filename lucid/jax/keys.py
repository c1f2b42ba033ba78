"""Arrays of random keys, each of them one element, as `jax.random.key` makes them."""

from collections.abc import Iterator
from typing import Any

from lucid.tree import register


class KeyType:
    """The type of keys."""

    name = "key<philox>"

    def __repr__(self) -> str:
        return self.name


KEY = KeyType()


class Keys:
    """Keys over `data`, which has the two numbers of each in its last dimension. To transforms they are a nest of these.

    >>> import lucid.jax as jax
    >>> keys = jax.random.split(jax.random.key(0), 4)
    >>> keys.shape, keys[1:3].shape, keys.reshape(2, 2).shape, keys.dtype
    ((4,), (2,), (2, 2), key<philox>)
    """

    dtype = KEY

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions that hold keys."""
        return tuple(self.data.shape[:-1])

    @property
    def ndim(self) -> int:
        """Their number."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return int(self.data.size) // 2

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of one key")
        return self.shape[0]

    def __iter__(self) -> Iterator["Keys"]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> "Keys":
        index = index if isinstance(index, tuple) else (index,)
        return Keys(self.data[(*index, *(() if Ellipsis in index else (Ellipsis,)), slice(None))])

    def reshape(self, *shape: Any) -> "Keys":
        """The keys in another shape."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return Keys(self.data.reshape(*sizes, 2))

    def ravel(self) -> "Keys":
        """The keys in one dimension."""
        return self.reshape(-1)

    flatten = ravel

    def __eq__(self, other: Any) -> Any:
        return (self.data == other.data).all(-1) if isinstance(other, Keys) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return (self.data != other.data).any(-1) if isinstance(other, Keys) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of all arrays

    def block_until_ready(self) -> "Keys":
        """The keys, which are there."""
        return self

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{self.data}"


register(Keys, lambda keys: ((keys.data,), None), lambda rest, children: Keys(*children))
