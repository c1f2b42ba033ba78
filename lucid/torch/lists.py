"""`torch._foreach_add_` and its relatives: a method of each tensor of a list, with what other lists have at its place."""

from collections.abc import Callable
from typing import Any

from lucid.linalg import vector_norm
from lucid.torch.tensors import Plain, Tensor

PREFIX = "_foreach_"
_SCALED = {"addcmul": "value", "addcdiv": "value", "add": "alpha", "sub": "alpha"}  # whose last argument comes by name
_OTHERS: dict[str, Callable[..., Any]] = {"norm": vector_norm}


def foreach(name: str) -> Callable[..., Any] | None:
    """The function of a name such as "_foreach_mul_", or None: it gives a tuple, or the tensors that it has written.

    >>> import lucid.torch as torch
    >>> xs = [torch.ones(1), torch.zeros(2)]
    >>> _ = torch._foreach_add_(xs, [torch.ones(1), torch.ones(2)], alpha=2)
    >>> torch._foreach_mul(xs, 10), torch._foreach_norm(xs)
    ((tensor([30.]), tensor([20., 20.])), (tensor(3.), tensor(2.8284)))
    """
    plain = name.removeprefix(PREFIX)
    method = _OTHERS.get(plain) or getattr(Tensor, plain, None)
    if not name.startswith(PREFIX) or method is None:
        return None
    by_name = _SCALED.get(plain.rstrip("_"))
    operands = {"value": 2, "alpha": 1}.get(by_name or "", -1)

    def call(self: Any, *others: Any, **settings: Any) -> Any:
        if by_name and len(others) > operands:
            *others, settings[by_name] = others  # type: ignore[assignment]  # a list serves as well
        count = next(len(a) for a in (self, *others) if isinstance(a, list | tuple))
        results = [
            method(*[_at(a, i) for a in (self, *others)], **{key: _at(a, i) for key, a in settings.items()})
            for i in range(count)
        ]
        return self if plain.endswith("_") else tuple(results)

    call.__name__ = call.__qualname__ = name
    return call


def _at(argument: Any, place: int) -> Any:
    """What belongs to a tensor of a list: of a list or a tensor of several numbers the one at its place."""
    if isinstance(argument, list | tuple) or (isinstance(argument, Plain) and argument.ndim == 1):
        return argument[place]
    return argument
