"""Views as copies: what a function that shows memory gives, in memory of its own."""

from collections.abc import Callable
from typing import Any

from lucid.api import joining, shaping, splitting, strides
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.out import takes_out
from lucid.ops.rules import P


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    x = lift(input)
    return x.movedim(dim, 0)[slice(start, end, step)].movedim(0, dim)


def _in_own_memory(found: Any) -> Any:
    return P.clone(found) if isinstance(found, Tensor) else tuple(P.clone(piece) for piece in found)


def _copying(name: str, view: Callable[..., Any], call: str, value: str) -> Callable[..., Any]:
    """The function `name_copy`, with an example: how it is called on [[1, 2], [3, 4]], and the value."""

    def copy(input: Any, *args: Any, **kwargs: Any) -> Any:
        return _in_own_memory(view(input, *args, **kwargs))

    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"""What `{name}` gives, in memory of its own.

    >>> import lucid
    >>> x = lucid.tensor([[1, 2], [3, 4]])
    >>> lucid.{name}_copy{call}.tolist()
    {value}
    """
    return takes_out(copy)


alias_copy = _copying("alias", lift, "(x)", "[[1, 2], [3, 4]]")
as_strided_copy = _copying("as_strided", strides.as_strided, "(x, (3,), (1,))", "[1, 2, 3]")
detach_copy = _copying("detach", shaping.detach, "(x)", "[[1, 2], [3, 4]]")
diagonal_copy = _copying("diagonal", splitting.diagonal, "(x)", "[1, 4]")
expand_copy = _copying("expand", shaping.expand, "(x[:1], (2, 2))", "[[1, 2], [1, 2]]")
permute_copy = _copying("permute", shaping.permute, "(x, (1, 0))", "[[1, 3], [2, 4]]")
select_copy = _copying("select", splitting.select, "(x, 0, 1)", "[3, 4]")
slice_copy = _copying("slice", _slice, "(x, 1, 1, 2)", "[[2], [4]]")
split_copy = _copying("split", splitting.split, "(x, 1)[0]", "[[1, 2]]")
split_with_sizes_copy = _copying("split_with_sizes", joining.split_with_sizes, "(x, (1, 1))[1]", "[[3, 4]]")
squeeze_copy = _copying("squeeze", shaping.squeeze, "(x[:1], 0)", "[1, 2]")
t_copy = _copying("t", shaping.t, "(x)", "[[1, 3], [2, 4]]")
transpose_copy = _copying("transpose", shaping.transpose, "(x, 0, 1)", "[[1, 3], [2, 4]]")
unbind_copy = _copying("unbind", splitting.unbind, "(x)[0]", "[1, 2]")
unfold_copy = _copying("unfold", splitting.unfold, "(x, 1, 2, 1)", "[[[1, 2]], [[3, 4]]]")
unsqueeze_copy = _copying("unsqueeze", shaping.unsqueeze, "(x, 0)", "[[[1, 2], [3, 4]]]")
view_copy = _copying("view", shaping.view, "(x, (4,))", "[1, 2, 3, 4]")
