"""Forward mode by hand: tensors that carry a tangent, made and taken apart inside a level."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from lucid.arguments.promotion import exact
from lucid.core import levels
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.kinds.dual import Dual


class Pushforward:
    """One application of jvp."""

    __slots__ = ("level",)

    def __init__(self, level: int) -> None:
        self.level = level

    def lifted(self, tensor: Tensor) -> Dual:
        return Dual.make(tensor, None, self.level)

    def settled(self, gradient: Tensor) -> Tensor:
        """A gradient without tangent, for a leaf from outside."""
        return gradient


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, which is None if it has none at this level.

    >>> import lucid
    >>> from lucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     primal, tangent = forward_ad.unpack_dual(lucid.tensor(1.0))
    >>> primal
    Tensor(1.)
    """

    primal: Tensor
    tangent: Tensor | None


@contextmanager
def dual_level() -> Iterator[int]:
    """A context in which `make_dual` and `unpack_dual` work; levels may be nested for higher orders.

    >>> import lucid
    >>> from lucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(lucid.tensor([3.0]), lucid.tensor([1.0]))
    ...     forward_ad.unpack_dual(x * x).tangent
    Tensor([6.])
    """
    transform = Pushforward(levels.new_level())
    with levels.Inside(transform):
        yield transform.level


_entered: ContextVar[tuple[Any, ...]] = ContextVar("entered", default=())  # the contexts that are open by hand


def enter_dual_level() -> int:
    """Open a level as `dual_level` does, until `exit_dual_level`.

    >>> import lucid
    >>> from lucid.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> x = forward_ad.make_dual(lucid.tensor([3.0]), lucid.tensor([1.0]))
    >>> forward_ad.unpack_dual(x * x).tangent
    Tensor([6.])
    >>> forward_ad.exit_dual_level()
    """
    context = dual_level()
    level = context.__enter__()
    _entered.set((*_entered.get(), context))
    return level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level that was opened last.

    >>> from lucid.autograd import forward_ad
    >>> forward_ad.exit_dual_level()
    Traceback (most recent call last):
    RuntimeError: exit_dual_level: no level was opened by enter_dual_level
    """
    contexts = _entered.get()
    if not contexts:
        raise RuntimeError("exit_dual_level: no level was opened by enter_dual_level")
    _entered.set(contexts[:-1])
    contexts[-1].__exit__(None, None, None)


def _level(given: int | None, name: str) -> int:
    open_levels = [t.level for t in levels.active.get() if isinstance(t, Pushforward)]
    if given is not None and given not in open_levels:
        raise RuntimeError(f"{name}: level {given} is not open; open ones are {open_levels}")
    if not open_levels:
        raise RuntimeError(f"{name} works inside `with lucid.autograd.forward_ad.dual_level():`")
    return open_levels[-1] if given is None else given


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Tensor:
    """A tensor that carries `tangent` through everything that is computed from it.

    >>> import lucid
    >>> from lucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(lucid.tensor([0.0]), lucid.tensor([2.0]))
    ...     forward_ad.unpack_dual(x.sin()).tangent
    Tensor([2.])
    """
    x, t = lift(tensor), exact(tangent)
    chosen = _level(level, "make_dual")
    if x.np_dtype not in DIFFERENTIABLE:
        raise TypeError(f"make_dual: tangents need floating-point or complex tensors, not {x.dtype}")
    if x.shape != t.shape:
        raise ValueError(f"make_dual: the tangent has shape {t.shape}, but the tensor has {x.shape}")
    if isinstance(x, Dual) and x._level == chosen:
        raise RuntimeError("make_dual: the tensor has a tangent at this level already; use its unpack_dual(...).primal")
    return Dual.make(x, t.to(x.np_dtype), chosen)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor's value and tangent.

    >>> import lucid
    >>> from lucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(lucid.tensor([1.0]))
    UnpackedDualTensor(primal=Tensor([1.]), tangent=None)
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual takes a tensor, not {type(tensor).__name__}")
    chosen = _level(level, "unpack_dual")
    if isinstance(tensor, Dual) and tensor._level == chosen:
        return UnpackedDualTensor(tensor._array, tensor._aux)
    return UnpackedDualTensor(tensor, None)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
