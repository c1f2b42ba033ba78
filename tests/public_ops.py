"""Which public names are operations, and which row of the table tests each of them."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from table import ROWS

import lucid
from lucid.api.methods import method_table

NAMESPACES = """
    lucid lucid.linalg lucid.fft lucid.special lucid.signal.windows lucid.masked lucid.nn.functional
""".split()

# Names that are no operations on elements, and what looks after them instead.
NOT_OPS: dict[str, str] = {
    "makes tensors from numbers or memory: test_tensor, test_dtypes, test_properties": """
        arange as_tensor asarray empty empty_like empty_permuted empty_strided eye frombuffer from_file from_dlpack from_numpy full
        full_like ones ones_like scalar_tensor tensor tril_indices triu_indices zeros zeros_like
        new new_empty new_full new_ones new_tensor new_zeros bartlett_window blackman_window hamming_window hann_window
        kaiser_window fftfreq rfftfreq sinusoidal_embedding sinusoidal_embedding_2d
    """,
    "makes a window from its size: test_signal": """
        bartlett blackman cosine exponential gaussian general_cosine general_gaussian general_hamming hamming hann kaiser nuttall
    """,
    "draws random numbers: test_random, test_func_vmap_random": """
        bernoulli binomial multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm
        bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_ alpha_dropout dropout1d dropout2d
        dropout3d feature_alpha_dropout gumbel_softmax
    """,
    "the generator of random numbers: test_seeds": """
        Generator fork_rng get_rng_state initial_seed manual_seed seed set_rng_state
    """,
    "tells about types and shapes: test_dtypes, test_tensor": """
        __array_namespace_info__ broadcast_shapes can_cast device dtype finfo get_default_dtype iinfo is_complex
        is_floating_point is_pinned is_shared is_tensor isdtype nelement numel promote_types result_type set_default_dtype
        storage_offset stride Tensor HasShape SupportsGrad SupportsNumpyConversion TensorLikeProtocol
    """,
    "modes and settings: test_modes, test_amp, test_threads": """
        autocast enable_grad get_num_threads GradScaler inference_mode is_grad_enabled is_inference_mode_enabled no_grad
        set_grad_enabled set_num_threads set_printoptions
    """,
    "settings, and names that have nothing to do: test_originals, test_meta": """
        are_deterministic_algorithms_enabled eval get_default_device get_num_interop_threads is_storage pin_memory
        set_default_device set_num_interop_threads share_memory_ to_dlpack untyped_storage use_deterministic_algorithms
    """,
    "transforms and control flow: test_func_vmap, test_func_control, test_compile": "compile cond scan vmap while_loop",
    "files: test_checkpoints": "load load_safetensors load_sharded save save_safetensors save_sharded",
    "files of several processes: test_distributed_checkpoints": "Shard load_parallel save_parallel",
    "an error class": "LinAlgError",
    "changes type or place; the rows to_complex and to_double test the one operation beneath": """
        astype to to_device type type_as cpu numpy to_numpy bool byte char short int long half bfloat16 float double cfloat cdouble
        __array_namespace__
    """,
    "takes a tensor off the tape: test_tape": "detach_",
    "makes or takes sparse tensors: test_sparse": """
        layout sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_mask spmm to_dense to_sparse
        to_sparse_coo to_sparse_csc to_sparse_csr
    """,
}
WHY_NOT = {name: reason for reason, names in NOT_OPS.items() for name in names.split()}

# Other names of functions that have a row: functions of their own, with other arguments or conventions.
SAME_AS: dict[str, str] = {
    "bitwise_invert": "bitwise_not",
    "broadcast_arrays": "broadcast_tensors",
    "cube_": "pow_",
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "fill": "fill_",
    "histogram2d": "histogramdd",
    "linalg.inv": "inverse",
    "linalg.matmul": "matmul",
    "matrix_transpose": "transpose",
    **{f"nn.functional.{name}": name for name in "log_softmax relu relu_ sigmoid softmax softplus tanh".split()},
    "pad": "pad_constant",
    "permute_dims": "permute",
    "swapaxes_": "transpose_",
    "take_along_axis": "take_along_dim",
    "unique_all": "unique",
    "unique_counts": "unique",
    "unique_inverse": "unique",
    "unique_values": "unique",
    "unstack": "unbind",
    "vecdot": "linalg.vecdot",
}


def plain(function: Any) -> Any:
    """The function behind partial application and behind `out=`."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def public() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Every public function: where it is, its name, itself."""
    for home in NAMESPACES:
        module = import_module(home)
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
            value = getattr(module, name)
            if callable(value) and not inspect.ismodule(value):
                yield home, name, value
    for name, value in method_table().items():
        yield "lucid.Tensor", name, value


NAMES = {row.name for row in ROWS}
FUNCTIONS = {id(plain(row.op)): row.name for row in ROWS}


def row_of(home: str, name: str, function: Callable[..., Any]) -> str | None:
    """The name of a row that tests a public function."""
    if id(plain(function)) in FUNCTIONS:
        return FUNCTIONS[id(plain(function))]
    short = home.removeprefix("lucid").removeprefix(".")
    # A row of the bare name is that of the package's own function, if it has one.
    own = getattr(lucid, name, None)
    bare = name if home == "lucid.Tensor" or own is function or inspect.ismodule(own) or own is None else ""
    others = [SAME_AS[full] for full in (f"{short}.{name}", name) if full in SAME_AS]
    return next((known for known in (f"{short}.{name}", f"{short}_{name}", bare, *others) if known in NAMES), None)


def without_row() -> list[str]:
    """Public operations that no row tests."""
    missing = {
        f"{home}.{name}"
        for home, name, function in public()
        if name not in WHY_NOT and not row_of(home, name, function)
    }
    return sorted(missing)
