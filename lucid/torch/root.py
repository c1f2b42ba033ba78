"""Functions of PyTorch's first namespace that `lucid` has elsewhere, under another form, or no use for."""

import builtins
import sys
import warnings
from typing import Any

import numpy as np

import lucid
from lucid.api import rng
from lucid.core import modes
from lucid.linalg import cholesky, eigh, solve_triangular
from lucid.nn.functional import adaptive_max_pool1d as adaptive_max_pool1d
from lucid.nn.functional import batch_norm as batch_norm
from lucid.nn.functional import embedding as embedding
from lucid.nn.functional import embedding_bag as embedding_bag
from lucid.nn.functional import instance_norm as instance_norm
from lucid.torch.accelerators import needed
from lucid.torch.element_types import typed as of_front_door
from lucid.torch.printing import set_printoptions as set_printoptions
from lucid.torch.sizes import Size, sized
from lucid.torch.tensors import Plain, adopted
from lucid.utils.storages import TypedStorage as TypedStorage
from lucid.utils.storages import UntypedStorage as UntypedStorage

SymInt, SymFloat, SymBool = int, float, bool  # sizes are numbers here
default_generator = rng.default_generator()
has_lapack = has_openmp = True
has_mkl = has_spectral = False


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises when the memory of a device is full; Lucid raises MemoryError."""


class AcceleratorError(RuntimeError):
    """What PyTorch raises when a device fails."""


def range(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """From `start` to `end`, both included.

    >>> import lucid.torch as torch
    >>> torch.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    if end is None:
        start, end = 0, start
    count = int((end - start) / step + 1e-9) + 1
    options.setdefault("dtype", lucid.get_default_dtype())
    return adopted(lucid.arange(count, **options)) * step + start


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which tensors of these shapes broadcast.

    >>> import lucid.torch as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    return sized(tuple(lucid.broadcast_shapes(*shapes)))


def get_rng_state() -> Any:
    """The state of the default generator, as bytes.

    >>> import lucid.torch as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2)), state.dtype
    (True, torch.uint8)
    """
    state = lucid.get_rng_state()
    if type(state) is not tuple:
        return state  # of a program
    return adopted(Plain._wrap(np.array(state, np.uint64).view(np.uint8)))


def set_rng_state(new_state: Any) -> None:
    """Bring the default generator to a state that `get_rng_state` gave."""
    if isinstance(new_state, Plain):
        new_state = tuple(np.array(new_state.detach().numpy(), np.uint8).view(np.uint64).tolist())
    lucid.set_rng_state(new_state)


def svd_lowrank(A: Any, q: int | None = 6, niter: int = 2, M: Any = None) -> tuple[Any, Any, Any]:  # noqa: N803
    """The `q` largest singular values of A - M and their vectors, U, S and V, by a full decomposition.

    That of a sparse matrix is of its products with `q` random vectors, brought closer by `niter` steps (Halko, Martinsson
    and Tropp, 2011).

    >>> import lucid.torch as torch
    >>> torch.svd_lowrank(torch.diag(torch.tensor([1.0, 5.0, 3.0])), q=2)[1]
    tensor([5., 3.])
    """
    count = min(6 if q is None else q, *A.shape[-2:])
    if A.layout != lucid.strided:
        return _sparse_lowrank(A, count, niter, M)
    u, s, vh = lucid.linalg.svd(A if M is None else A - M, full_matrices=False)
    return u[..., :count], s[..., :count], vh.mH[..., :count]


def _sparse_lowrank(a: Any, count: int, steps: int, m: Any) -> tuple[Any, Any, Any]:
    def times(x: Any) -> Any:
        return a @ x if m is None else a @ x - m.expand(a.shape) @ x

    def across(x: Any) -> Any:
        return a.mH @ x if m is None else a.mH @ x - m.expand(a.shape).mH @ x

    basis = lucid.linalg.qr(times(lucid.randn(a.shape[1], count, dtype=a.dtype))).Q
    for _ in range(steps):
        basis = lucid.linalg.qr(times(lucid.linalg.qr(across(basis)).Q)).Q
    u, s, vh = lucid.linalg.svd(across(basis).mH, full_matrices=False)
    return basis @ u, s, vh.mH


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:  # noqa: N803
    """The `q` principal components of the rows of A: U, S and V.

    >>> import lucid.torch as torch
    >>> [tuple(t.shape) for t in torch.pca_lowrank(torch.eye(5, 3), q=2)]
    [(5, 2), (2,), (3, 2)]
    """
    mean = (A.sum(-2, keepdim=True).to_dense() / A.shape[-2]) if center else None
    return svd_lowrank(A, min(6, *A.shape[-2:]) if q is None else q, niter, mean)


_EMPTY = {"sum": 0.0, "mean": float("nan"), "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Sum, mean, product, maximum or minimum of parts that follow each other along the first dimension.

    >>> import lucid.torch as torch
    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    if reduce not in _EMPTY:
        raise RuntimeError(f"segment_reduce: the reduction is one of {', '.join(_EMPTY)}, not {reduce!r}")
    if axis != 0 or indices is not None:
        raise RuntimeError("segment_reduce: parts lie along the first dimension, and are given by lengths or offsets")
    sizes = offsets.diff() if lengths is None else lengths
    places = lucid.repeat_interleave(lucid.arange(sizes.numel()), sizes)
    places = places.reshape(-1, *[1] * (data.ndim - 1)).expand(data.shape)
    start = data.new_full((sizes.numel(), *data.shape[1:]), _EMPTY[reduce] if initial is None else initial)
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    return start.scatter_reduce(0, places, data, kind, include_self=initial is not None)


def typename(obj: Any) -> str:
    """The name of the type of something, with its module.

    >>> import lucid.torch as torch
    >>> torch.typename(torch.ones(1)), torch.typename(3)
    ('torch.FloatTensor', 'builtins.int')
    """
    if isinstance(obj, Plain):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def is_storage(obj: Any) -> bool:
    """Whether something is the memory of a tensor.

    >>> import lucid.torch as torch
    >>> torch.is_storage(torch.ones(2)), torch.is_storage(torch.ones(2).untyped_storage())
    (False, True)
    """
    return isinstance(obj, UntypedStorage)


def lobpcg(
    A: Any,  # noqa: N803  # PyTorch's names, here and below
    k: int | None = None,
    B: Any = None,  # noqa: N803
    X: Any = None,  # noqa: N803
    n: int | None = None,
    iK: Any = None,  # noqa: N803
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Any, Any]:
    """The `k` largest (or smallest) eigenvalues of A x = λ B x and their vectors, by a full decomposition.

    What guides iterations (`X`, `iK`, `niter`, `tol`, `method`) changes nothing: the result is exact.

    >>> import lucid.torch as torch
    >>> torch.lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0])), k=2)[0]
    tensor([5., 3.])
    """
    count = k or (1 if X is None else X.shape[-1])
    lower = None if B is None else cholesky(B)
    matrix = A
    if lower is not None:
        matrix = solve_triangular(lower, solve_triangular(lower, A, upper=False).mT, upper=False)
    values, vectors = eigh(matrix)
    if lower is not None:
        vectors = solve_triangular(lower.mT, vectors, upper=True)
    if largest is None or largest:
        return values.flip(-1)[..., :count], vectors.flip(-1)[..., :count]
    return values[..., :count], vectors[..., :count]


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Convolution over sequences laid out as (time, batch, channels); the weight is (width, in, out).

    >>> import lucid.torch as torch
    >>> torch.conv_tbc(torch.ones(5, 2, 3), torch.ones(3, 3, 4), torch.zeros(4), 1).shape
    torch.Size([5, 2, 4])
    """
    return lucid.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def is_inference(input: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return bool(input.is_inference())


def view_as_real_copy(input: Any) -> Any:
    """A copy of the parts of complex numbers, as pairs."""
    return lucid.view_as_real(input).clone()


def view_as_complex_copy(input: Any) -> Any:
    """A copy of pairs, as complex numbers."""
    return lucid.view_as_complex(input).clone()


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on.

    >>> import lucid.torch as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    return modes.autocast.get() is not None and device_type in (None, "cpu")


def get_autocast_dtype(device_type: str) -> Any:
    """The type in which products run inside autocast."""
    casting = modes.autocast.get()
    return of_front_door(lucid.bfloat16 if casting is None else casting.dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether a parameter that is used several times is cast once."""
    return True


def clear_autocast_cache() -> None:
    """Casts are forgotten at the end of each context."""


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` is on."""
    return bool(modes.anomaly.get())


is_anomaly_check_nan_enabled = is_anomaly_enabled
_settings: dict[str, Any] = {"debug": 0, "warn": False}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Accepted: every operation is deterministic."""
    levels = {"default": 0, "warn": 1, "error": 2}
    _settings["debug"] = levels.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode


def get_deterministic_debug_mode() -> int:
    """What was set last."""
    return int(_settings["debug"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether nondeterministic operations only warn: there are none."""
    return False


def set_flush_denormal(mode: bool) -> bool:
    """Whether the processor was told to take tiny numbers as 0: no, it is left alone."""
    return False


def set_warn_always(b: bool) -> None:
    """Show warnings each time, or as Python's filters say."""
    _settings["warn"] = b
    warnings.simplefilter("always" if b else "default")


def is_warn_always_enabled() -> bool:
    """What was set last."""
    return bool(_settings["warn"])


def init_num_threads() -> None:
    """Threads are there when they are needed."""


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device."""
    return getattr(sys.modules[__package__], "cpu" if device is None else str(device).partition(":")[0])


def sym_int(a: Any) -> int:
    """A size as an integer."""
    return int(a)


def sym_float(a: Any) -> float:
    """A size as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether something does not hold."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b`, otherwise `f`."""
    return t if b else f


sym_max, sym_min, sym_sum = builtins.max, builtins.min, builtins.sum
unsafe_split_with_sizes = lucid.split_with_sizes
Stream = Event = needed
native_channel_shuffle = lucid.channel_shuffle


class JITException(RuntimeError):  # noqa: N818  # the name in PyTorch
    """What programs compiled by PyTorch raise."""


def values_copy(input: Any) -> Any:
    """The values of a sparse tensor, in memory of their own.

    >>> import lucid.torch as torch
    >>> x = torch.eye(2).to_sparse().coalesce()
    >>> torch.values_copy(x), torch.indices_copy(x)
    (tensor([1., 1.]), tensor([[0, 1],
            [0, 1]]))
    """
    return input.values().clone()


def indices_copy(input: Any) -> Any:
    """The indices of a sparse tensor of coordinates, in memory of their own."""
    return input.indices().clone()


def crow_indices_copy(input: Any) -> Any:
    """Where the rows of a compressed sparse tensor begin, in memory of its own."""
    return input.crow_indices().clone()


def col_indices_copy(input: Any) -> Any:
    """The columns of the entries of a compressed sparse tensor, in memory of their own."""
    return input.col_indices().clone()


def smm(input: Any, mat: Any) -> Any:
    """The product of a sparse matrix with a dense one, as a sparse tensor.

    >>> import lucid.torch as torch
    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    return (input @ mat).to_sparse()


hspmm = smm


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · input + alpha · mat1 @ mat2 for a sparse input and factor, as a sparse tensor.

    >>> import lucid.torch as torch
    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.ones(2, 2), alpha=2).to_dense()
    tensor([[3., 2.],
            [2., 3.]])
    """
    return (beta * input.to_dense() + alpha * (mat1 @ mat2)).to_sparse()


def fake_quantize_per_tensor_affine(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """What remains of numbers that were rounded to `scale · (k - zero_point)`; gradients pass within the range.

    >>> import lucid.torch as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.14, 0.26, 9.0]), 0.1, 0, 0, 15)
    tensor([0.1000, 0.3000, 1.5000])
    """
    steps = input / scale + zero_point
    inside = (steps.detach().round() >= quant_min) & (steps.detach().round() <= quant_max)
    kept = (steps.detach().round().clamp(quant_min, quant_max) - zero_point) * scale
    return lucid.where(inside, input + (kept - input).detach(), kept)


def fake_quantize_per_channel_affine(
    input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    """The same with a scale and a zero point for each channel along `axis`.

    >>> import lucid.torch as torch
    >>> x = torch.tensor([[0.14, 0.26], [0.14, 0.26]])
    >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.2]), torch.zeros(2), 0, 0, 255)
    tensor([[0.1000, 0.3000],
            [0.2000, 0.2000]])
    """
    shape = [-1 if d == axis % input.ndim else 1 for d in builtins.range(input.ndim)]
    return fake_quantize_per_tensor_affine(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """The bits of all elements, in 64 bits each, put together by exclusive or: equal tensors have equal ones.

    >>> import lucid.torch as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.hash_tensor(x) == torch.hash_tensor(x.flip(0)), torch.hash_tensor(x) == torch.hash_tensor(x + 1)
    (tensor(True), tensor(False))
    """
    return input.hash_tensor(dim, keepdim=keepdim, mode=mode)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy; `memory_format` is a hint."""
    return input.clone()


def thread_safe_generator() -> None:
    """The generator of a worker thread of a data loader: there is none, and the default one serves."""


# Those that PyTorch has in its first namespace: all but the helpers of this module.
_IMPORTED = {
    "Any",
    "Plain",
    "Size",
    "adopted",
    "builtins",
    "cholesky",
    "eigh",
    "lucid",
    "modes",
    "needed",
    "np",
    "of_front_door",
    "rng",
    "sized",
    "sys",
    "solve_triangular",
    "warnings",
}
NAMES = [name for name in list(globals()) if not name.startswith("_") and name not in _IMPORTED and name != "NAMES"]
