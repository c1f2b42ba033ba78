"""Functions that make tensors of no others, such that they make those of the front door."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from lucid.torch.tensors import Plain, Typed, adopted

# The modules whose functions need no tensor to make one, and single functions of other modules.
MAKERS = frozenset(
    "lucid.api.creation lucid.api.dlpack lucid.api.random lucid.signal.windows lucid.fft.frequencies "
    "lucid.nn.utils.rnn lucid.nn.utils.clip_grad lucid.sparse.creation".split()
)
SINGLE = frozenset("empty_permuted empty_strided tril_indices triu_indices".split())
# What PyTorch's functions take beside Lucid's arguments: there is one layout, and no memory to be pinned.
_HINTS = ("layout", "memory_format", "pin_memory")


def makes(value: Any) -> bool:
    """Whether something is a function that makes tensors of the caller's numbers alone."""
    return (
        callable(value)
        and not isinstance(value, type)
        and (getattr(value, "__module__", None) in MAKERS or getattr(value, "__name__", None) in SINGLE)
    )


@cache
def making(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, such that new tensors are those of the front door; it takes PyTorch's hints and needs none."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        for hint in _HINTS:
            kwargs.pop(hint, None)
        if isinstance(kwargs.get("dtype"), Typed):
            kwargs["dtype"] = kwargs["dtype"].dtype
        made = function(*args, **kwargs)
        # What was given and is handed back keeps its class.
        return made if type(made) is Plain and args and made is args[0] else adopted(made)

    return make
