"""Questions about accelerators, answered truthfully: there are none.

What asks is answered; what seeds, waits or frees has nothing to do; what needs a GPU is refused with the reason.
"""

from contextlib import nullcontext
from types import ModuleType
from typing import Any, NoReturn

import lucid
from lucid import amp
from lucid.core.device import places

NONE = "Lucid computes on the CPU: it has no backend for GPUs. Use torch.device('cpu')"


class autocast(amp.autocast):
    """Mixed precision; for a device that is not there it must be disabled.

    >>> import lucid.torch as torch
    >>> with torch.autocast("cuda", enabled=False):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float32
    """

    def __init__(
        self, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        super().__init__(
            _checked("autocast", device_type, enabled), None if not enabled else dtype, enabled, cache_enabled
        )


class GradScaler(amp.GradScaler):
    """Scaled losses; for a device that is not there the scaler must be disabled, as PyTorch does by itself.

    >>> import lucid.torch as torch
    >>> torch.amp.GradScaler("cuda", enabled=False).scale(torch.ones(1))
    tensor([1.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        place = _checked("GradScaler", device, enabled)
        super().__init__(place, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def _checked(name: str, device: Any, enabled: bool) -> str:
    """The device to use: any will do for what does nothing."""
    kind = str(device).partition(":")[0]
    if enabled and kind != "cpu":
        raise RuntimeError(f"{name}: {kind!r} is not available. {NONE}, or enabled=False")
    return "cpu"


class cuda_autocast(autocast):
    """`torch.cuda.amp.autocast`, which takes no device."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)

    def _fresh(self) -> Any:
        return type(self)(self._enabled)


class cuda_scaler(GradScaler):
    """`torch.cuda.amp.GradScaler`, which takes no device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)


def is_available() -> bool:
    """Whether there is such a device: no."""
    return False


is_built = is_initialized = is_bf16_supported = is_available


def device_count() -> int:
    """How many such devices there are: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generators of all such devices, of which there are none."""


manual_seed_all = manual_seed


def nothing(*args: Any, **kwargs: Any) -> None:
    """What waits for, empties or measures such a device has nothing to do."""


synchronize = empty_cache = reset_peak_memory_stats = ipc_collect = nothing


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on such a device."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def needed(*args: Any, **kwargs: Any) -> NoReturn:
    """What only a device can do."""
    raise RuntimeError(NONE)


current_device = get_device_name = get_device_properties = get_device_capability = set_device = needed
Stream = Event = ExternalStream = StreamContext = CUDAGraph = MemPool = current_stream = default_stream = needed
stream = set_stream = get_stream_from_external = device = device_of = graph = make_graphed_callables = needed
graph_pool_handle = cudart = check_error = mem_get_info = utilization = temperature = power_draw = clock_rate = needed
memory_usage = list_gpu_processes = can_device_access_peer = get_per_process_memory_fraction = needed
set_per_process_memory_fraction = current_blas_handle = use_mem_pool = device_memory_used = needed
get_rng_state = set_rng_state = needed
BoolTensor = ByteTensor = CharTensor = ShortTensor = IntTensor = LongTensor = HalfTensor = FloatTensor = needed
DoubleTensor = BFloat16Tensor = needed
BoolStorage = ByteStorage = CharStorage = ShortStorage = IntStorage = LongStorage = HalfStorage = FloatStorage = needed
DoubleStorage = BFloat16Storage = ComplexFloatStorage = ComplexDoubleStorage = CUDAPluggableAllocator = needed
GreenContext = caching_allocator_alloc = caching_allocator_delete = caching_allocator_disabled = needed
change_current_allocator = current_solver_handle = get_allocator_backend = caching_allocator_enable = needed


def seed() -> None:
    """Seeds the generator of such a device, of which there is none."""


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats = nothing
seed_all = init = reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = nothing
set_sync_debug_mode = nothing


def initial_seed() -> int:
    """The seed of such a device."""
    return 0


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all such devices."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Puts back the states of all such devices, of which there are none."""


def get_arch_list() -> list[str]:
    """The kinds of such devices that there is code for."""
    return []


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counts of the memory of such a device."""
    return {}


memory_stats_as_nested_dict = host_memory_stats = host_memory_stats_as_nested_dict = memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The same as text."""
    return ""


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    """The blocks of memory of such a device."""
    return []


def get_gencode_flags() -> str:
    """The flags of a compiler that is not there."""
    return ""


def get_sync_debug_mode() -> int:
    """Whether waiting is reported: no."""
    return 0


is_tf32_supported = is_current_stream_capturing = is_available
memory_cached = max_memory_cached = memory_allocated
default_generators: tuple[Any, ...] = ()
has_half = has_magma = False


class CudaError(RuntimeError):
    """What PyTorch raises when a device reports an error."""


class cudaStatus:
    """Codes of a device."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class DeferredCudaCallError(Exception):
    """What PyTorch raises when something that was put off fails."""


class Switch(ModuleType):
    """The settings of a library that is not there: they can be set, and nothing follows from them.

    >>> import lucid.torch.backends.cudnn as cudnn
    >>> cudnn.benchmark = True
    >>> cudnn.is_available(), cudnn.benchmark
    (False, True)
    """

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(f"torch.backends.{name}")
        vars(self).update(settings)

    def is_available(self) -> bool:
        """Whether the library is there: no."""
        return False

    is_built = is_flash_attention_available = is_available

    def version(self) -> None:
        """Of no library."""

    def flags(self, *_: Any, **settings: Any) -> Any:
        """Settings for the length of a `with`."""
        return nullcontext()

    sdp_kernel = flags

    def enable_flash_sdp(self, enabled: bool) -> None:
        """A hint: there is one way to compute attention."""

    enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp

    def math_sdp_enabled(self) -> bool:
        """Whether attention is computed by Lucid's own kernel: yes."""
        return True

    def flash_sdp_enabled(self) -> bool:
        """Whether attention is computed by this library: no."""
        return False

    mem_efficient_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled


cudnn = Switch("cudnn", enabled=False, benchmark=False, deterministic=False, allow_tf32=False)
mps = Switch("mps")
cuda = Switch("cuda", matmul=Switch("cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True))
mkl, mkldnn, openmp = (Switch(name, enabled=False) for name in ("mkl", "mkldnn", "openmp"))
SWITCHES = {f"backends.{s.__name__.rpartition('.')[2]}": s for s in (cudnn, mps, cuda, mkl, mkldnn, openmp)}


def current_accelerator(check_available: bool = False) -> None:
    """The kind of accelerator that is there: none."""


def get_default_device() -> lucid.device:
    """Where tensors are made."""
    return places.get()[-1]


def set_default_device(device: Any) -> None:
    """Say where tensors are made: on the CPU, or on "meta", without elements."""
    places.set((lucid.device("cpu" if device is None else device),))
