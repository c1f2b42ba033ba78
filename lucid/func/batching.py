"""vmap: a function of one example as a function of a batch."""

import dataclasses
import tracemalloc
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from lucid.core import tree
from lucid.core.levels import Inside, new_level
from lucid.core.primitive import P, lift
from lucid.core.tensor import Tensor
from lucid.func.arguments import leaf_names
from lucid.kinds.batched import Batch, Batched

Randomness = Literal["error", "same", "different"]
ChunkSize = int | Literal["auto"] | None
MEMORY = 1 << 28  # bytes that chunk_size="auto" stays within, if not told otherwise


def _spread_dims(dims: Any, nest: Any, name: str, count: int | None = None) -> list[int | None]:
    """One batch dimension for each leaf, of which there are `count`; a single entry stands for a whole branch."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        if count is None:
            count = 1 if isinstance(nest, Tensor) else len(tree.flatten(nest)[0])
        return [dims] * count
    if isinstance(dims, dict) and isinstance(nest, dict) and dims.keys() == nest.keys():
        return [d for k in tree._sorted(nest) for d in _spread_dims(dims[k], nest[k], name)]
    if isinstance(dims, (list, tuple)) and isinstance(nest, (list, tuple)) and len(dims) == len(nest):
        return [d for a, b in zip(dims, nest, strict=True) for d in _spread_dims(a, b, name)]
    if dataclasses.is_dataclass(nest) and type(dims) is type(nest):
        fields = [f.name for f in dataclasses.fields(nest)]
        return [d for f in fields for d in _spread_dims(getattr(dims, f), getattr(nest, f), name)]
    tree.flatten(dims)  # what is too deep cannot be printed either
    raise ValueError(
        f"vmap: {name} {dims!r} does not match the structure {tree.flatten(nest)[1]}: give one whole number or None for "
        "everything, or a nest of them in the same structure"
    )


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: Randomness = "error",
    *,
    chunk_size: ChunkSize = None,
    memory: int = MEMORY,
    strategy: str = "auto",
) -> Callable[..., Any]:
    """A function that applies `func` to every example of a batch at once: `vmap(f)(X)[i] == f(X[i])`.

    `in_dims` says which dimension of each argument is the batch (None: the argument is shared), `out_dims` where it
    goes in the results; both may be nests, and entries may be negative. Keyword arguments are shared.

    `randomness` says what random functions do inside: refuse, draw once for all examples, or for each its own.
    `chunk_size` bounds how many examples run at once; "auto" chooses so that about `memory` bytes are enough, by
    running one example first and looking at what it needs. There is one `strategy`, whichever of "auto", "isolated" and
    "vectorized" is named: all examples are computed at once, and none sees another.

    >>> import lucid
    >>> lucid.func.vmap(lambda x: x.sum())(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([3., 7.])
    >>> lucid.func.vmap(lucid.dot, in_dims=(0, None))(lucid.eye(2), lucid.tensor([5.0, 6.0]))
    Tensor([5., 6.])
    """
    if randomness not in ("error", "same", "different"):
        raise ValueError(f'vmap: randomness must be "error", "same" or "different", not {randomness!r}')
    if strategy not in ("auto", "isolated", "vectorized"):
        raise ValueError(f'vmap: strategy must be "auto", "isolated" or "vectorized", not {strategy!r}')
    number = isinstance(chunk_size, int) and not isinstance(chunk_size, bool)
    if chunk_size is not None and chunk_size != "auto" and (not number or chunk_size < 1):
        raise ValueError(f'vmap: chunk_size must be a positive whole number, "auto" or None, not {chunk_size!r}')

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        dims = _spread_dims(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args, "in_dims", len(leaves))
        inputs, size = _to_front(func, args, leaves, dims)

        drawn: dict[int, Any] = {}

        def run(start: int, count: int) -> tuple[list[Any], list[int | None], Any]:
            part = inputs if count == size else [_chunk(x, d, start, count) for x, d in zip(inputs, dims, strict=True)]
            batch = Batch(new_level(), count, randomness, drawn)
            return _run(func, structure, part, dims, kwargs, out_dims, batch)

        if chunk_size is None or size == 0:
            outs, places, nest = run(0, size)
        else:
            outs, places, nest = _in_chunks(run, size, chunk_size, memory, drawn)
        return nest.unflatten([_placed(o, d) for o, d in zip(outs, places, strict=True)])

    return call


def _to_front(
    func: Callable[..., Any], args: tuple[Any, ...], leaves: list[Any], dims: list[int | None]
) -> tuple[list[Any], int]:
    """The leaves with their batch dimension in front, and the size of the batch."""
    size: int | None = None
    first = 0
    inputs = []
    for number, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            inputs.append(leaf)
            continue
        x = lift(leaf)
        if not -x.ndim <= dim < x.ndim:
            raise ValueError(
                f"vmap: in_dims {dim} is out of range for {leaf_names(func, args)[number]}, which has shape {x.shape}; "
                "use None for what all examples share"
            )
        length = x.shape[dim]
        if size is None:
            size, first = length, number
        elif length != size:
            names = leaf_names(func, args)
            raise ValueError(
                f"vmap: inconsistent batch sizes: {names[first]} of shape {lift(leaves[first]).shape} has {size} examples "
                f"along dim {dims[first]}, but {names[number]} of shape {x.shape} has {length} along dim {dim}"
            )
        inputs.append(x.movedim(dim, 0) if dim % x.ndim else x)
    if size is None:
        raise ValueError("vmap: at least one argument must have a batch dimension; all in_dims are None")
    return inputs, size


def _run(
    func: Callable[..., Any],
    structure: Any,
    inputs: list[Any],
    dims: list[int | None],
    kwargs: dict[str, Any],
    out_dims: Any,
    batch: Batch,
) -> tuple[list[Any], list[int | None], Any]:
    """Call the function on batched tensors; gives its results with the batch in front, and where it should go."""
    level = batch.level
    examples = [x if d is None else Batched.make(x, level) for x, d in zip(inputs, dims, strict=True)]
    with Inside(batch):
        result = func(*structure.unflatten(examples), **kwargs)
    outs, nest = tree.flatten(result)
    places = _spread_dims(out_dims, result, "out_dims", len(outs))
    return [_whole(o, d, batch) for o, d in zip(outs, places, strict=True)], places, nest


def _whole(out: Any, dim: int | None, batch: Batch) -> Any:
    """A result for all examples."""
    if not isinstance(out, Tensor):
        raise TypeError(f"vmap: the function must return tensors, not {type(out).__name__}")
    if isinstance(out, Batched) and out._level == batch.level:
        if out._aux is None:
            if dim is None:
                raise ValueError("vmap: out_dims is None for a result that differs between examples")
            return out._array
        out = out._array
    return out if dim is None else P.broadcast_to(out, shape=(batch.size, *out.shape))


def _placed(out: Tensor, dim: int | None) -> Tensor:
    """A result with its batch where `out_dims` wants it."""
    if not dim:
        return out
    if not -out.ndim <= dim < out.ndim:
        raise ValueError(
            f"vmap: out_dims is {dim}, but with its batch the result has {out.ndim} dimensions: {out.shape}"
        )
    return out.movedim(0, dim)


def _chunk(x: Any, dim: int | None, start: int, count: int) -> Any:
    return x if dim is None else P.slice(x, index=(slice(start, start + count),))


def _in_chunks(run: Any, size: int, chunk_size: Any, memory: int, drawn: dict[int, Any]) -> Any:
    """Run the batch piece by piece."""
    parts = []
    start, count = 0, chunk_size
    if chunk_size == "auto":
        part, needed = _measured(lambda: run(0, 1))
        parts.append(part)
        start, count = 1, max(1, memory // max(needed, 1))
    while start < size:
        for generator, state in drawn.values():
            generator.set_state(state)  # what all examples share, the next chunk draws again
        parts.append(run(start, min(count, size - start)))
        start += count
    outs, places, nest = parts[0]
    columns = zip(*[p[0] for p in parts], strict=True)
    joined = [c[0] if d is None else P.cat(*c, dim=0) for c, d in zip(columns, places, strict=True)]
    return joined if outs else [], places, nest


def _measured(run: Callable[[], Any]) -> tuple[Any, int]:
    """A result, and the most bytes that were in use at one time to get it."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        result = run()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
