"""Names behind PyTorch's public ones that programs import all the same: helpers of layers, losses and distributions."""

import copy
import math
import os
import re
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any
from urllib.parse import urlparse

import lucid
import lucid.nn
from lucid.distributions.gaussian import tril_of_precision
from lucid.linalg import vector_norm
from lucid.nn import functional
from lucid.torch.files import load
from lucid.torch.layers import Module
from lucid.torch.layers import legacy_get_string as legacy_get_string
from lucid.torch.tensors import Plain, Tensor, adopted

# Types for annotations: `torch.types`.
Device = _device = Any
Number = int | float | bool
_size = _dtype = _layout = _qscheme = Any
ParamsT = Iterable[Any]
required: Any = object()


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes a number `n` numbers, and a tuple of any other iterable.

    >>> from lucid.torch.nn.modules.utils import _pair
    >>> _pair(3), _pair([1, 2])
    ((3, 3), (1, 2))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Each element `n` times, the last one first: padding of convolutions as `pad` takes it."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _get_clones(module: Any, n: int) -> Any:
    """`n` copies of a module, as a list of modules."""
    return lucid.nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation: str) -> Callable[..., Any]:
    """The function of a name: relu or gelu."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    found: Callable[..., Any] = getattr(functional, activation)
    return found


def _addindent(text: str, spaces: int) -> str:
    """A text whose lines but the first are indented."""
    return text.replace("\n", "\n" + " " * spaces)


class _Loss(Module):
    """The base of losses: they know how results are reduced.

    >>> from lucid.torch.nn.modules.loss import _Loss
    >>> _Loss(reduction="sum").reduction, _Loss(size_average=False).reduction
    ('sum', 'sum')
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_get_string(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """The base of losses with a weight for each class."""

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """How many numbers go into an output, or come of an input, of a layer with this weight."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return lucid.nn.init._calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


# --- distributions -----------------------------------------------------------------------------------


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the type of the tensors.

    >>> from lucid.torch.distributions.utils import broadcast_all
    >>> [tuple(t.shape) for t in broadcast_all(1.0, [2.0, 3.0][0])]
    [(), ()]
    """
    if not all(isinstance(v, (Plain, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing it.")
    tensors = [v for v in values if isinstance(v, Plain)]
    kind = next((t.dtype for t in tensors if t.is_floating_point()), lucid.get_default_dtype())
    made = [v if isinstance(v, Plain) else adopted(lucid.tensor(float(v), dtype=kind)) for v in values]
    return tuple(lucid.broadcast_tensors(*made))


def clamp_probs(probs: Any) -> Any:
    """Probabilities, kept away from 0 and 1 by the precision of their type."""
    eps = lucid.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Logits of probabilities: of classes along the last dimension, or of two outcomes.

    >>> import lucid.torch as torch
    >>> from lucid.torch.distributions.utils import logits_to_probs, probs_to_logits
    >>> logits_to_probs(probs_to_logits(torch.tensor([0.25, 0.75]), True), True)
    tensor([0.2500, 0.7500])
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of logits."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class lazy_property:
    """An attribute that a method computes once, when it is first asked for."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with lucid.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


euler_constant = 0.57721566490153286060


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Normal numbers of mean 0 and variance 1."""
    return adopted(lucid.randn(tuple(shape), dtype=dtype, device=device))


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions.

    >>> import lucid.torch as torch
    >>> from lucid.torch.distributions.utils import _sum_rightmost
    >>> _sum_rightmost(torch.ones(2, 3, 4), 2)
    tensor([12., 12.])
    """
    return value.sum(tuple(range(-dim, 0))) if dim else value


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices whose lower triangles have the elements of vectors, row by row.

    >>> import lucid.torch as torch
    >>> from lucid.torch.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
    >>> m = vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    >>> m, tril_matrix_to_vec(m)
    (tensor([[1., 0.],
            [2., 3.]]), tensor([1., 2., 3.]))
    """
    # The count is n (n + 1 + 2 diag) / 2, less a corner of the matrix.
    count = vec.shape[-1]
    square = (1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)
    n, rest = divmod(math.isqrt(square) - 1 - 2 * diag, 2)
    if rest or math.isqrt(square) ** 2 != square:
        raise ValueError(f"the last dimension has {count} elements, which do not fill the lower part of a matrix")
    rows, columns = lucid.tril_indices(n, n, diag)
    return vec.new_zeros((*vec.shape[:-1], n * n)).index_copy(-1, rows * n + columns, vec).unflatten(-1, (n, n))


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of lower triangles, row by row."""
    rows, columns = lucid.tril_indices(mat.shape[-2], mat.shape[-1], diag)
    return mat[..., rows, columns]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Products of matrices with vectors, both in batches."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:  # noqa: N803
    """The squared length of x in the metric of L Lᵀ."""
    return lucid.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


_precision_to_scale_tril = tril_of_precision


# --- parts for devices, of which there is one ------------------------------------------------------------


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The parts of a nest of tensors for each device: all of it for the one."""
    return [inputs]


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The results of all devices together."""
    (whole,) = outputs
    return whole


# --- lists of tensors at once: functions take them one by one ---------------------------------------------

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
        count = next(len(a) for a in (self, *others) if isinstance(a, (list, tuple)))
        results = [
            method(*[_at(a, i) for a in (self, *others)], **{key: _at(a, i) for key, a in settings.items()})
            for i in range(count)
        ]
        return self if plain.endswith("_") else tuple(results)

    call.__name__ = call.__qualname__ = name
    return call


def _at(argument: Any, place: int) -> Any:
    """What belongs to a tensor of a list: of a list or a tensor of several numbers the one at its place."""
    if isinstance(argument, (list, tuple)) or (isinstance(argument, Plain) and argument.ndim == 1):
        return argument[place]
    return argument


def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Lists of tensors that go together, by the device and the type of those in the first: the lists, and their places.

    >>> import lucid.torch as torch
    >>> from lucid.torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped
    >>> lists = [[torch.ones(1), torch.ones(1).double(), torch.zeros(1)], [1, 2, 3]]
    >>> [(str(kind), found[0][1], found[1]) for (_, kind), found in grouped(lists, with_indices=True).items()]
    [('torch.float32', [1, 3], [0, 2]), ('torch.float64', [2], [1])]
    """
    places: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensorlistlist[0]):
        places.setdefault((tensor.device, tensor.dtype), []).append(i)
    return {
        kind: ([[row[i] if row else None for i in found] for row in tensorlistlist], found if with_indices else [])
        for kind, found in places.items()
    }


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The devices with kernels for lists of tensors: none."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    """Whether there are kernels for lists of tensors: no."""
    return False


# --- operators of compiled extensions ---------------------------------------------------------------------


class _Operators:
    """`torch.ops` and the libraries in it: they have no operators, since no extension of PyTorch is loaded.

    >>> import lucid.torch as torch
    >>> hasattr(torch.ops.torchvision, "nms")
    False
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if self._path != "torch.ops" or name.startswith("__"):
            raise AttributeError(
                f"{self._path} has no operator {name!r}: extensions that are compiled for PyTorch are not loaded"
            )
        return _Operators(f"torch.ops.{name}")

    def load_library(self, path: Any) -> None:
        """Refused: extensions that are compiled for PyTorch need its own tensors."""
        raise OSError(f"{path} is compiled for PyTorch, whose tensors are not here")


ops = _Operators("torch.ops")


# --- reductions by number, processes, files ------------------------------------------------------------


def get_enum(reduction: str) -> int:
    """The number of a reduction in PyTorch's kernels."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ("none", "mean", "sum").index(reduction)


class Backend(str):
    """The name of a way to talk between processes.

    >>> import lucid.torch as torch
    >>> torch.distributed.Backend("GLOO") == torch.distributed.Backend.GLOO
    True
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> "Backend":
        return super().__new__(cls, name.lower())


MAP_LOCATION = FILE_LIKE = FileLike = Any
DEFAULT_PROTOCOL = 2


# --- files that are downloaded elsewhere, and overriding -----------------------------------------------


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # finds the hash in the name of a file that PyTorch offers


def get_dir() -> str:
    """Where files that were downloaded are looked for."""
    home = os.getenv("TORCH_HOME", os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """The file of this address, if it was downloaded before: nothing is downloaded here."""
    place = os.path.join(
        model_dir or os.path.join(get_dir(), "checkpoints"), file_name or os.path.basename(urlparse(url).path)
    )
    if not os.path.exists(place):
        raise RuntimeError(f"nothing is downloaded here: put {url} at {place}")
    return load(place, map_location, weights_only=weights_only)


load_url = load_state_dict_from_url


def has_torch_function(args: Any) -> bool:
    """Whether one of the arguments overrides functions: none does."""
    return False


def _disabled_torch_function_impl(*args: Any, **kwargs: Any) -> Any:
    """What PyTorch's classes of tensors have as `__torch_function__` to override nothing; nothing is overridden here."""
    return NotImplemented


has_torch_function_unary = has_torch_function_variadic = has_torch_function


def is_tensor_like(obj: Any) -> bool:
    """Whether something is a tensor."""
    return isinstance(obj, Plain)


class FakeTensor:
    """The tensors without elements by which PyTorch reads programs: no tensor is one."""


def is_fake(x: Any) -> bool:
    """Whether a tensor only stands for one while a program is read: no."""
    return False


def _log_api_usage_once(name: str) -> None:
    """Nothing is counted."""


def _get_tracing_state() -> None:
    """No program is being traced by PyTorch."""
