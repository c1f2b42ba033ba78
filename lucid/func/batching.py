"""vmap: a function of one example as a function of a batch."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.core import tree
from lucid.core.batched import Batched
from lucid.core.levels import new_level
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor


def _spread_dims(dims: Any, nest: Any, name: str) -> list[int | None]:
    """One batch dimension for each leaf; a single entry stands for a whole branch."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree.flatten(nest)[0])
    if isinstance(dims, dict) and isinstance(nest, dict) and dims.keys() == nest.keys():
        return [d for k in tree._sorted(nest) for d in _spread_dims(dims[k], nest[k], name)]
    if isinstance(dims, list | tuple) and isinstance(nest, list | tuple) and len(dims) == len(nest):
        return [d for a, b in zip(dims, nest, strict=True) for d in _spread_dims(a, b, name)]
    raise ValueError(f"vmap: {name} {dims!r} does not match the structure {tree.flatten(nest)[1]}")


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """A function that applies `func` to every example of a batch at once: `vmap(f)(X)[i] == f(X[i])`.

    `in_dims` says which dimension of each argument is the batch (None: the argument is shared), `out_dims` where it
    goes in the results.

    >>> import lucid
    >>> lucid.func.vmap(lambda x: x.sum())(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([3., 7.])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = new_level()
        dims = _spread_dims(in_dims if not isinstance(in_dims, list) else tuple(in_dims), args, "in_dims")
        leaves, structure = tree.flatten(args)
        inputs, size = _batched_inputs(leaves, dims, level)
        result = func(*structure.unflatten(inputs), **kwargs)
        outs, shape = tree.flatten(result)
        places = _spread_dims(out_dims, result, "out_dims")
        return shape.unflatten([_unbatched(o, d, level, size) for o, d in zip(outs, places, strict=True)])

    return call


def _batched_inputs(leaves: list[Any], dims: list[int | None], level: int) -> tuple[list[Any], int]:
    size: int | None = None
    inputs = []
    for number, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            inputs.append(leaf)
            continue
        x = lift(leaf)
        if not -x.ndim <= dim < x.ndim:
            raise ValueError(f"vmap: in_dims {dim} is out of range for input {number} of shape {x.shape}")
        length = x.shape[dim]
        if size is not None and length != size:
            raise ValueError(f"vmap: input {number} has {length} examples along dim {dim}, but others have {size}")
        size = length
        inputs.append(Batched.make(x.movedim(dim, 0) if dim % x.ndim else x, level))
    if size is None:
        raise ValueError("vmap: at least one input must have a batch dimension; all in_dims are None")
    return inputs, size


def _unbatched(out: Any, dim: int | None, level: int, size: int) -> Any:
    if not isinstance(out, Tensor):
        raise TypeError(f"vmap: the function must return tensors, not {type(out).__name__}")
    if isinstance(out, Batched) and out._level == level:
        if dim is None:
            raise ValueError("vmap: out_dims is None for a result that differs between examples")
        return out._array.movedim(0, dim) if dim else out._array
    if dim is None:
        return out
    spread = out.expand(size, *out.shape)
    return spread.movedim(0, dim) if dim else spread
