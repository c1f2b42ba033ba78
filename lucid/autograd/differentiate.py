"""`grad` and `backward`: the tape's two front doors."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lucid.autograd import passes
from lucid.core.arrays import as_array, from_numpy, full, zeros
from lucid.core.dtypes import FLOATING
from lucid.core.levels import active, tracing
from lucid.core.primitive import element_type, synced
from lucid.core.storage import LARGE, freeze
from lucid.core.tensor import Tensor, shape_of
from lucid.ir.meta import without_elements

_run = passes.run  # arguments by place: names would cost a fifth of a small pass
_NUMBERS = (bool, int, float, complex)
_ones: dict[Any, Any] = {}  # seeds of losses, by their types


def _as_list(tensors: Any, what: str) -> list[Tensor]:
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            raise TypeError(f"{what} must be tensors; element {i} is {type(t).__name__}")
    if not found:
        raise ValueError(f"{what}: expected at least one tensor")
    return found


def _seed_list(seeds: Any, count: int, name: str) -> list[Any]:
    if seeds is None:
        return [None] * count
    if isinstance(seeds, (Tensor, np.ndarray, np.generic, *_NUMBERS)):
        seeds = [seeds]
    found = list(seeds)
    if len(found) != count:
        raise RuntimeError(f"{name}: got {len(found)} seeds for {count} outputs")
    return found


def _seed(root: Tensor, seed: Any, implicit: bool, as_tensor: bool) -> Any:
    """The cotangent to start from at `root`."""
    if seed is None:
        if not implicit and root.numel() != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, and this one has shape {root.shape}. "
                "Reduce it, as with .sum(), or pass a gradient of that shape"
            )
        if not implicit and root.is_complex():
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs, and this one is {root.dtype}. "
                "Take its .real or .abs(), or pass a gradient"
            )
        if root._level and root.is_meta:
            return without_elements(root)
        seed = full(root.shape, 1, root.np_dtype)
    elif isinstance(seed, Tensor):
        _check_seed(root, shape_of(seed), element_type(seed))
        if as_tensor or seed._level:
            return seed.to(root.np_dtype)
        seed = seed._array
    elif isinstance(seed, _NUMBERS):
        if isinstance(seed, complex) and not root.is_complex():
            raise RuntimeError(f"a complex gradient was given for an output of {root.dtype}")
        seed = full(root.shape, seed, root.np_dtype)
    else:
        seed = from_numpy(seed)
        _check_seed(root, seed.shape, seed.dtype)
    if seed.dtype is not element_type(root):
        seed = as_array(seed, root.np_dtype)
    return seed if not root._level and not as_tensor else Tensor._wrap(seed)


def _check_seed(root: Tensor, shape: tuple[int, ...], dtype: Any) -> None:
    if shape != shape_of(root):
        raise RuntimeError(f"the gradient given has shape {shape}, but the output has shape {root.shape}")
    if dtype is not element_type(root) and dtype.kind == "c" and not root.is_complex():
        raise RuntimeError(f"the gradient given is complex, but the output is {root.dtype}")


def _prepare(roots: list[Tensor], seeds: list[Any], implicit: bool, create_graph: bool) -> list[Any]:
    return [_seed(r, s, implicit, create_graph) for r, s in zip(roots, seeds)]  # no strict=, as in the engine


def _require(roots: Iterable[Tensor]) -> None:
    for i, root in enumerate(roots):
        if not synced(root)._requires_grad:
            raise RuntimeError(
                f"output {i} does not require grad and has no grad_fn, so there is nothing to differentiate. "
                "Set requires_grad=True on an input, and see lucid.autograd.explain(output, input) for where it was lost"
            )


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves they depend on.

    Each root that has more than one element needs a seed in `grad_tensors`. `inputs` restricts accumulation to
    the tensors listed, which need not be leaves. `retain_graph` (by default as `create_graph`) keeps the graph
    for another pass; `create_graph` records the pass itself, so that gradients can be differentiated.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> lucid.autograd.backward((x * x).sum())
    >>> x.grad
    Tensor([2., 4., 6.])
    """
    roots = _as_list(tensors, "tensors")
    seeds = _seed_list(grad_tensors, len(roots), "backward")
    _require(roots)
    wanted = None if inputs is None else _as_list(inputs, "inputs")
    for i, t in enumerate(wanted or ()):
        if not t.requires_grad:
            raise RuntimeError(f"backward: inputs[{i}] does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    _run(roots, _prepare(roots, seeds, False, create_graph), wanted, keep, create_graph, True)


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
    *,
    only_inputs: bool = True,
) -> Any:
    """The gradients of the sum of `outputs` by `inputs`, leaving every `.grad` alone.

    One input gives one gradient, several give a tuple. `grad_outputs` are the seeds: tensors or numbers, ones if
    omitted. An input that the outputs do not depend on is an error, or None with `allow_unused`, or zeros with
    `materialize_grads`. With `is_grads_batched`, the seeds have one more dimension at the front, and so have the
    gradients. `only_inputs` is for programs that say it, and must be True.

    >>> import lucid
    >>> x = lucid.tensor([1.0, -2.0, 3.0], requires_grad=True)
    >>> lucid.autograd.grad((x * x).sum(), x)
    Tensor([ 2., -4.,  6.])
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use backward() to accumulate into every leaf")
    bare = isinstance(inputs, Tensor)
    roots = _as_list(outputs, "outputs")
    wanted = _as_list(inputs, "inputs")
    seeds = _seed_list(grad_outputs, len(roots), "grad")
    keep = create_graph if retain_graph is None else retain_graph
    if materialize_grads:
        if allow_unused is False:
            raise ValueError("materialize_grads=True gives zeros for unused inputs; allow_unused=False contradicts it")
        allow_unused = True
    for i, t in enumerate(wanted):
        if not synced(t)._requires_grad:
            raise RuntimeError(f"grad: inputs[{i}] does not require grad. Set requires_grad=True before it is used")
    if is_grads_batched:
        found = _batched(roots, wanted, seeds, keep, create_graph)
    else:
        if allow_unused:
            live = [(r, s) for r, s in zip(roots, seeds, strict=True) if synced(r)._requires_grad]
            roots, seeds = [r for r, _ in live], [s for _, s in live]
        _require(roots)
        lent = None if create_graph or tracing() or active.get() else _lent(seeds)
        found = _run(roots, _prepare(roots, seeds, True, create_graph), wanted, keep, create_graph, False, lent)
    if materialize_grads:
        found = [
            Tensor._wrap(zeros(t.shape, t.np_dtype)) if g is None else g for g, t in zip(found, wanted, strict=True)
        ]
    elif not allow_unused:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(
                    f"grad: inputs[{i}] was not used to compute the outputs. Pass allow_unused=True to get None for it, "
                    "and see lucid.autograd.explain(output, input) for where the connection was lost"
                )
    return found[0] if bare else tuple(found)


def _lent(seeds: list[Any]) -> list[Any]:
    """The memory of seeds that gradients may show."""
    tensors = [s for s in seeds if isinstance(s, Tensor) and not s._level]
    return [t._array for t in tensors if t._array.nbytes >= LARGE and freeze(t)]


def _batched(
    roots: list[Tensor], wanted: list[Tensor], seeds: list[Any], keep: bool, create_graph: bool
) -> list[Tensor | None]:
    """All seeds of a batch in one pass: cotangents are batched tensors."""
    from lucid.core.levels import new_level
    from lucid.kinds.batched import Batched

    _require(roots)
    level = new_level()
    sizes = {shape_of(s)[0] for s in seeds if s is not None and shape_of(s)}
    if len(sizes) != 1:
        raise RuntimeError(f"is_grads_batched: the seeds must share one batch size, got {sorted(sizes)}")
    starts = []
    for root, seed in zip(roots, seeds, strict=True):
        value = seed if isinstance(seed, Tensor) else Tensor._wrap(from_numpy(seed, root.np_dtype))
        _check_seed(root, value.shape[1:], value.np_dtype)
        starts.append(Batched.make(value.to(root.np_dtype), level))
    found = _run(roots, starts, wanted, retain_graph=keep, create_graph=create_graph, accumulate=False)
    size = sizes.pop()
    return [None if g is None else _unbatched(g, level, size) for g in found]


def _unbatched(gradient: Tensor, level: int, size: int) -> Tensor:
    from lucid.kinds.batched import Batched

    if isinstance(gradient, Batched) and gradient._level == level and gradient._aux is None:
        value: Tensor = gradient._array
        return value
    return gradient.expand(size, *gradient.shape)


def backward_method(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor into the `.grad` of the leaves it depends on.

    A tensor with more than one element needs the seed `gradient`. See `lucid.autograd.backward`.
    """
    if gradient is None and inputs is None and not create_graph and not self._level and not self._array.shape:
        # The loss of a training step, without the bookkeeping for everything else.
        _require((self,))
        kind = self._array.dtype
        seed = _ones.get(kind)
        if seed is None and kind in FLOATING:
            seed = _ones[kind] = full((), 1, kind)
        if seed is not None:
            _run((self,), (seed,), None, bool(retain_graph), False, True)
            return
    backward(self, None if gradient is None else [gradient], retain_graph, create_graph, inputs)
