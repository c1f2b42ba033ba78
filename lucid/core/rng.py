"""Random bits: counter-based Philox streams, so that any device can make the same numbers."""

from contextvars import ContextVar
from typing import Any



class Generator:
    """A stream of random numbers, given by a seed and a position.

    >>> import lucid
    >>> g = lucid.Generator().manual_seed(1)
    >>> lucid.equal(lucid.rand(3, generator=g), lucid.rand(3, generator=lucid.Generator().manual_seed(1)))
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        self._seed = 0
        self._offset = 0
        self._bits: Any = None

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream of `seed` from its beginning."""
        self._seed = int(seed) % (1 << 64)
        self._offset = 0
        self._bits = None
        return self

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """Seed and position; `set_state` takes them back."""
        return self._seed, self._offset

    def set_state(self, state: tuple[int, int]) -> None:
        """Go to a position of a stream."""
        seed, offset = state
        if (seed, offset) != (self._seed, self._offset):
            self._seed, self._offset, self._bits = seed, offset, None


_current: ContextVar[Generator | None] = ContextVar("generator", default=None)
_default = Generator()


def default_generator() -> Generator:
    """The generator that random functions use when none is given."""
    return _current.get() or _default
