"""Whole Jacobians and Hessians, column by column or row by row, all at once or in chunks."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from lucid.core import tree
from lucid.core.arrays import basis, full
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, of_class
from lucid.func.arguments import named, numbers_of, raise_if_not_differentiable, replaced
from lucid.func.batching import MEMORY, ChunkSize, Randomness, vmap
from lucid.func.forward import jvp
from lucid.func.reverse import grad, vjp

Argnums = int | Sequence[int]


def _basis(leaves: list[Tensor]) -> list[Tensor]:
    """Unit vectors for all elements of all leaves: each leaf's share of them, in its own shape."""
    if len(leaves) == 1:
        (x,) = leaves
        return [of_class((x,), Tensor._wrap(basis(x.numel(), 0, x.shape, x.np_dtype)))]
    total = sum(x.numel() for x in leaves)
    out, start = [], 0
    for x in leaves:
        out.append(of_class((x,), Tensor._wrap(basis(total, start, x.shape, x.np_dtype))))
        start += x.numel()
    return out


class _Chosen:
    """A function of the chosen arguments alone, and these arguments."""

    def __init__(self, name: str, func: Callable[..., Any], argnums: Argnums, args: Any, kwargs: Any) -> None:
        self.numbers = numbers_of(name, func, argnums, args)
        self.bare = isinstance(argnums, int)
        self.primals = tuple(tree.tree_map(lift, args[n]) for n in self.numbers)
        for n, primal in zip(self.numbers, self.primals, strict=True):
            for leaf in tree.flatten(primal)[0]:
                if leaf.np_dtype not in DIFFERENTIABLE:
                    raise_if_not_differentiable(leaf, name, named(func, n))
        self.func, self.args, self.kwargs = func, args, kwargs

    def __call__(self, *values: Any) -> Any:
        return self.func(*replaced(self.args, self.numbers, values), **self.kwargs)

    def arranged(self, structure: Any, parts: list[Any]) -> Any:
        nested = structure.unflatten(parts)
        return nested[0] if self.bare else nested


def _raise_unfit(name: str, path: str, out: Any) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: the function must return tensors, but value{path} is a {type(out).__name__}")
    raise_if_not_differentiable(out, name, f"the result{path}")


def _rows(chosen: _Chosen, value: Any, pull: Callable[[Any], Any], chunk_size: ChunkSize, memory: int) -> Any:
    """The Jacobian by one cotangent for each element of the value."""
    outputs, out_structure = tree.flatten(value)
    for n, out in enumerate(outputs):
        if out.np_dtype not in DIFFERENTIABLE:
            _raise_unfit("jacrev", tree.paths(value)[n], out)
    if len(outputs) == 1 and outputs[0].numel() == 1 and not outputs[0].is_complex():
        # One row needs no batch.
        (out,) = outputs
        leaves, in_structure = tree.flatten(
            pull(out_structure.unflatten([Tensor._wrap(full(out.shape, 1, out.np_dtype))]))
        )
        parts = [leaf.reshape(*out.shape, *leaf.shape) if out.ndim else leaf for leaf in leaves]
        return out_structure.unflatten([chosen.arranged(in_structure, parts)])
    batched = vmap(lambda *cts: pull(out_structure.unflatten(cts)), chunk_size=chunk_size, memory=memory)
    cts = _basis(outputs)
    in_leaves, in_structure = tree.flatten(batched(*cts) if outputs else ())
    if any(out.is_complex() for out in outputs):
        turned = tree.flatten(batched(*[b * 1j if b.is_complex() else b for b in cts]))[0]
    jacobians, start = [], 0
    for out in outputs:
        stop = start + out.numel()
        rows = in_leaves if len(outputs) == 1 else [leaf[start:stop] for leaf in in_leaves]
        if out.is_complex():
            # Cotangents are conjugates of derivatives; of a real argument one pass gives the real part, a second the other.
            others = [leaf[start:stop] for leaf in turned]
            rows = [a.conj() if a.is_complex() else a + 1j * b for a, b in zip(rows, others, strict=True)]
        parts = [r if out.ndim == 1 else r.reshape(*out.shape, *r.shape[1:]) for r in rows]
        jacobians.append(chosen.arranged(in_structure, parts))
        start = stop
    return out_structure.unflatten(jacobians)


def _columns(
    chosen: _Chosen, has_aux: bool, chunk_size: ChunkSize, memory: int, randomness: Randomness = "error"
) -> Any:
    """The Jacobian by one tangent for each element of the arguments."""
    leaves, structure = tree.flatten(chosen.primals)

    handed: list[Any] = []

    def push(*tangents: Any) -> Any:
        value, change, *aux = jvp(chosen, chosen.primals, structure.unflatten(tangents), has_aux=has_aux)
        handed[:] = aux
        for path, out in zip(tree.paths(value), tree.flatten(value)[0], strict=True):
            if not isinstance(out, Tensor) or out.np_dtype not in DIFFERENTIABLE:
                _raise_unfit("jacfwd", path, out)
        return change

    batched = vmap(push, randomness=randomness, chunk_size=chunk_size, memory=memory)
    outputs, out_structure = tree.flatten(batched(*_basis(leaves)))
    jacobians = []
    for out in outputs:
        parts, start = [], 0
        by_column = out.movedim(0, -1)
        for leaf in leaves:
            stop = start + leaf.numel()
            columns = by_column if len(leaves) == 1 else by_column[..., start:stop]
            parts.append(columns if leaf.ndim == 1 else columns.reshape(*out.shape[1:], *leaf.shape))
            start = stop
        jacobians.append(chosen.arranged(structure, parts))
    result = out_structure.unflatten(jacobians)
    return (result, handed[0]) if has_aux else result


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: ChunkSize = None,
    memory: int = MEMORY,
) -> Callable[..., Any]:
    """The Jacobian of `func` by reverse mode: one batched backward pass, best for few outputs.

    `chunk_size` bounds how many rows are computed at once, as in `vmap`.

    >>> import lucid
    >>> lucid.func.jacrev(lambda x: x**2)(lucid.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = _Chosen("jacrev", func, argnums, args, kwargs)
        value, pull, *aux = vjp(chosen, *chosen.primals, has_aux=has_aux)
        result = _rows(chosen, value, pull, chunk_size, memory)
        return (result, aux[0]) if has_aux else result

    return call


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: ChunkSize = None,
    memory: int = MEMORY,
    randomness: Randomness = "error",
) -> Callable[..., Any]:
    """The Jacobian of `func` by forward mode: one batched forward pass, best for few inputs.

    `chunk_size` bounds how many columns are computed at once, and `randomness` says what random functions do, as in `vmap`.

    >>> import lucid
    >>> lucid.func.jacfwd(lambda x: x**2)(lucid.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = _Chosen("jacfwd", func, argnums, args, kwargs)
        return _columns(chosen, has_aux, chunk_size, memory, randomness)

    return call


def jacobian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: ChunkSize = None,
    memory: int = MEMORY,
) -> Callable[..., Any]:
    """The Jacobian of `func` by whichever mode is cheaper: reverse if there are fewer outputs than inputs, else forward.

    >>> import lucid
    >>> lucid.func.jacobian(lambda x: x.sum() * x)(lucid.tensor([1.0, 2.0]))
    Tensor([[4., 1.],
            [2., 5.]])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = _Chosen("jacobian", func, argnums, args, kwargs)
        value, pull, *aux = vjp(chosen, *chosen.primals, has_aux=has_aux)
        inputs = sum(x.numel() for x in tree.flatten(chosen.primals)[0])
        if sum(o.numel() for o in tree.flatten(value)[0]) > inputs:
            return _columns(chosen, has_aux, chunk_size, memory)
        result = _rows(chosen, value, pull, chunk_size, memory)
        return (result, aux[0]) if has_aux else result

    return call


def hessian(
    func: Callable[..., Any], argnums: Argnums = 0, *, chunk_size: ChunkSize = None, memory: int = MEMORY
) -> Callable[..., Any]:
    """The matrix of second derivatives of `func`, by forward mode over reverse mode.

    >>> import lucid
    >>> lucid.func.hessian(lambda x: (x**3).sum())(lucid.tensor([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums, chunk_size=chunk_size, memory=memory)


def hvp(func: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The product of the Hessian of `func` at `primals` with `tangents`, without the Hessian: forward over reverse.

    `primals` and `tangents` are tuples with one entry for each argument; for one argument the product is bare.

    >>> import lucid
    >>> x, v = lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 0.5])
    >>> lucid.func.hvp(lambda x: (x**3).sum(), (x,), (v,))
    Tensor([6., 6.])
    """
    if not isinstance(primals, (tuple, list)):
        raise TypeError(f"hvp: primals is a tuple with one entry for each argument, not a {type(primals).__name__}")
    argnums: Argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(func, argnums), primals, tangents)[1]
