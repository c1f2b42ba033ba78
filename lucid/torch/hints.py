"""Settings that only hint, and decorators that compile elsewhere: accepted, and said to do nothing where that matters."""

import builtins
import typing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lucid.nn
from lucid import compiler
from lucid.compiler import disable as disable
from lucid.compiler import is_compiling as is_compiling
from lucid.torch.tensors import memory_format as memory_format

contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")

_PRECISIONS = ("highest", "high", "medium")
_settings: dict[str, Any] = {"deterministic": False, "precision": "highest", "warned": False}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results in each run. They are, on one machine with one number of threads."""
    _settings["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was asked for last."""
    return bool(_settings["deterministic"])


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 in less precision. It is never used.

    >>> import lucid.torch as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"the precision of products is one of {', '.join(_PRECISIONS)}, not {precision!r}")
    _settings["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What was allowed last."""
    return str(_settings["precision"])


def set_num_interop_threads(threads: int) -> None:
    """How many operations may run at once: one does."""


def get_num_interop_threads() -> int:
    """How many operations run at once."""
    return 1


def set_default_tensor_type(kind: Any) -> None:
    """Make the type of a class of tensors, such as `torch.DoubleTensor`, the default.

    >>> import lucid.torch as torch
    >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    from lucid.torch.tensors import typed

    name = kind if type(kind) is str else kind.__name__
    lucid.set_default_dtype(typed()[name.rpartition(".")[2]].dtype)


def passed_through(function: Any) -> Any:
    """What a decorator of a compiler of PyTorch's was given; the first time, a warning says so."""
    if not _settings["warned"]:
        _settings["warned"] = True
        warnings.warn(
            "torch.jit and torch.fx compile nothing here: functions and modules run as they are; torch.compile compiles",
            stacklevel=3,
        )
    return function


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.script`: the function or module itself."""
    return passed_through(obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.trace`: the function or module itself."""
    return passed_through(func)


def unchanged(function: Any) -> Any:
    """`torch.jit.ignore` and other marks for a compiler: the function itself."""
    return function


export = ignore = unused = script_method = interface = script_if_tracing = freeze = unchanged
optimize_for_inference = trace_module = unchanged
Error = RuntimeError


class ScriptModule(lucid.nn.Module):
    """What PyTorch compiles modules to: no module is one, unless a program derives it from this class."""


class ScriptFunction:
    """What PyTorch compiles functions to: no function is one."""


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.fork`: the result, computed at once."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """`torch.jit.wait`: the result of `fork`."""
    return future


def isinstance(obj: Any, target_type: Any) -> bool:
    """`torch.jit.isinstance`: that of Python, by the outermost type.

    >>> import lucid.torch as torch
    >>> torch.jit.isinstance([1], list[int])
    True
    """
    kinds: Any = target_type if type(target_type) is tuple else (target_type,)
    outermost: Any = tuple([typing.get_origin(kind) or kind for kind in kinds])
    return builtins.isinstance(obj, outermost)


def export_opnames(m: Any) -> list[str]:
    """The operators of a compiled module: of none."""
    return []


def Attribute(value: Any, type: Any) -> Any:
    """`torch.jit.Attribute`: the value."""
    return value


@contextmanager
def strict_fusion() -> Iterator[None]:
    """A hint."""
    yield


def set_fusion_strategy(strategy: Any) -> None:
    """A hint."""


def enable_onednn_fusion(enabled: bool) -> None:
    """A hint."""


def onednn_fusion_enabled() -> bool:
    """Whether that library fuses operations: it is not there."""
    return False


def is_scripting() -> bool:
    """Whether a compiler reads the program: no."""
    return False


is_tracing = is_dynamo_compiling = is_exporting = is_scripting


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """`torch.compile`: `lucid.compile`, which has one backend and always takes the whole function. Modules stay themselves.

    >>> import lucid.torch as torch
    >>> torch.compile(lambda x: x * 2)(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return lambda function: compile(function, disable=disable)
    if disable:
        return model
    return model.compile() if hasattr(model, "parameters") else compiler.compile(model)


def annotate(kind: Any, value: Any) -> Any:
    """`torch.jit.annotate`: the value."""
    return value


Final = typing.Final  # `torch.jit.Final[int]` is an annotation

# Those that PyTorch has in its first namespace.
ROOT = (
    "are_deterministic_algorithms_enabled channels_last channels_last_3d compile contiguous_format fork wait get_float32_matmul_precision "
    "get_num_interop_threads memory_format preserve_format set_default_tensor_type set_float32_matmul_precision "
    "set_num_interop_threads use_deterministic_algorithms"
).split()
