"""Names of PyTorch that Lucid itself has no use for: one device in place of many, and recomputation in segments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum, IntEnum
from functools import wraps
from typing import Any

import lucid
import lucid.nn
from lucid import autograd
from lucid.kinds.kind import Kind
from lucid.nn import functional
from lucid.nn.layers.normalization import _BatchNorm
from lucid.torch.layers import Module


class DataParallel(Module):
    """A module run on all devices: on the one that there is. Its state has the prefix `module.`, as PyTorch's has.

    >>> import lucid.torch as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The options of a layer that say how tensors are made.

    >>> import lucid.torch as torch
    >>> torch.nn.factory_kwargs({"dtype": torch.float64})
    {'dtype': torch.float64}
    """
    given = dict(kwargs or {})
    given.update(given.pop("factory_kwargs", {}))
    unknown = given.keys() - {"device", "dtype", "memory_format"}
    if unknown:
        raise TypeError(f"factory_kwargs: unexpected {', '.join(sorted(unknown))}")
    return given


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch normalisations use the statistics of the batch alone, as transforms need.

    >>> import lucid.torch as torch
    >>> torch.func.replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(3)).running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: in-place operations work inside all transforms.

    >>> import lucid.torch as torch
    >>> torch.func.vmap(torch.func.functionalize(lambda x: x.clone().add_(1)))(torch.zeros(2))
    tensor([1., 1.])
    """
    return func


def same_module(module: Any, memory_format: Any = None) -> Any:
    """The module itself: there is one order of dimensions in memory."""
    return module


convert_conv2d_weight_memory_format = convert_conv3d_weight_memory_format = same_module


def _with_indices(pool: Any) -> Callable[..., Any]:
    @wraps(pool)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["return_indices"] = True
        return pool(*args, **kwargs)

    call.__doc__ = f"`{pool.__name__}` that also gives where the elements stand."
    return call


_POOLS = (
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
    "max_pool1d max_pool2d max_pool3d"
)
globals().update({f"{name}_with_indices": _with_indices(getattr(functional, name)) for name in _POOLS.split()})


class set_multithreading_enabled:
    """A hint: backward passes run in one thread, and operations in several."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class SDPBackend(Enum):
    """The ways in which attention may be computed."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose among ways to compute attention: a hint, since there is one.

    >>> from lucid.torch.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    yield


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what it saves; the backward pass runs it again.

    There is one way to do that, so `use_reentrant` changes nothing.

    >>> import lucid.torch as torch
    >>> from lucid.torch.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(torch.exp, x, use_reentrant=True).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    return autograd.checkpoint(function, *args, preserve_rng_state=preserve_rng_state, **kwargs)


class CheckpointError(RuntimeError):
    """What PyTorch raises when a second run differs from the first."""


class CheckpointPolicy(Enum):
    """What a selective checkpoint does with the result of an operation."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts for both runs of a checkpointed function: empty ones."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A hint: whether the second run stops when everything is there."""
    yield


set_checkpoint_debug_enabled = set_checkpoint_early_stop


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> Any:
    """A hint: everything is computed again."""
    return noop_context_fn()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors without history, which require grad where they did."""
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, lucid.Tensor) else x for x in inputs])


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The states of the generators of accelerators, of which there are none."""
    return [], []


def set_device_states(devices: Any, states: Any, **_: Any) -> None:
    """Puts back the states of the generators of accelerators, of which there are none."""


def check_backward_validity(inputs: Any) -> None:
    """Every checkpoint works, whether or not an input requires grad."""


def list_flash_attention_impls() -> list[str]:
    """Other implementations of attention: none."""
    return []


def current_flash_attention_impl() -> None:
    """The implementation of attention that was chosen: none."""


def no_flash_attention(*args: Any, **kwargs: Any) -> Any:
    """Other implementations of attention cannot be used."""
    raise RuntimeError("there is one implementation of attention, and it is always in use")


activate_flash_attention_impl = register_flash_attention_impl = restore_flash_attention_impl = no_flash_attention
WARN_FOR_UNFUSED_KERNELS = False


class DLDeviceType(IntEnum):
    """Kinds of devices in DLPack."""

    kDLCPU = 1  # noqa: N815  # the names of the standard
    kDLCUDA = 2  # noqa: N815


FunctionMeta = type(autograd.Function)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after the other, in segments of which each keeps its input alone; the last keeps everything.

    >>> import lucid.torch as torch
    >>> from lucid.torch.utils.checkpoint import checkpoint_sequential
    >>> checkpoint_sequential([torch.square, torch.sqrt, torch.neg], 2, torch.ones(2, requires_grad=True))
    tensor([-1., -1.], grad_fn=<neg>)
    """
    steps = list(functions.children()) if isinstance(functions, lucid.nn.Sequential) else list(functions)
    size = len(steps) // segments
    if not size:
        raise ValueError(f"checkpoint_sequential: {len(steps)} functions cannot be cut into {segments} segments")

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def segment(x: Any) -> Any:
            for step in steps[start:stop]:
                x = step(x)
            return x

        return segment

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
    return run(size * (segments - 1), len(steps))(input)


OptimizerPreHook = OptimizerPostHook = Callable[..., Any]  # types of hooks


class DefaultDeviceType:
    """The kind of device that checkpoints look for: there is one."""

    @staticmethod
    def get_device_type() -> str:
        """The processor."""
        return "cpu"

    @staticmethod
    def set_device_type(device: str = "cpu") -> None:
        """Nothing to do for the processor; others are refused."""
        if device != "cpu":
            lucid.zeros((), device=device)


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """What is inside a tensor of a transform, to look at it; gradients do not follow.

    >>> import lucid.torch as torch
    >>> torch.func.vmap(lambda x: (print(torch.func.debug_unwrap(x).shape), x)[1])(torch.ones(3, 2)).shape
    torch.Size([3, 2])
    torch.Size([3, 2])
    """
    while isinstance(tensor, Kind):
        tensor = tensor._array
        if not recurse:
            break
    return tensor
