"""Settings that only hint, and decorators that compile elsewhere: accepted, and said to do nothing where that matters."""

import builtins
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

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
    """`torch.jit.wait`: the result of `fork`, or of a future."""
    return future.wait() if builtins.isinstance(future, Future) else future


T = TypeVar("T")


class Future(Generic[T]):
    """A result that is set once; `wait` gives it when it is there.

    >>> import lucid.torch as torch
    >>> future = torch.futures.Future()
    >>> later = future.then(lambda done: done.value() + 1)
    >>> future.set_result(2)
    >>> future.done(), later.wait()
    (True, 3)
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._arrival: SimpleQueue[None] = SimpleQueue()
        self._outcome: tuple[T | None, BaseException | None] | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    def done(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._outcome is not None

    def wait(self) -> Any:
        """The result, once it is there."""
        if self._outcome is None:
            self._arrival.get()
            self._arrival.put(None)  # for others who wait
        return self.value()

    def value(self) -> Any:
        """The result, which must be there."""
        if self._outcome is None:
            raise RuntimeError("the result of this future is not there yet; use wait()")
        result, error = self._outcome
        if error is not None:
            raise error
        return result

    def set_result(self, result: T) -> None:
        """Give the result."""
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error, which `wait` raises."""
        self._set(None, result)

    def _set(self, result: T | None, error: BaseException | None) -> None:
        if self._outcome is not None:
            raise RuntimeError("the result of this future is there already")
        self._outcome = result, error
        self._arrival.put(None)
        self._call()

    def _call(self) -> None:
        """Call each function that waits for the result, once."""
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # another thread was faster
                return
            callback(self)

    def add_done_callback(self, callback: Callable[["Future[T]"], None]) -> None:
        """Call a function with this future when the result is there."""
        self._callbacks.append(callback)
        if self._outcome is not None:
            self._call()

    def then(self, callback: Callable[["Future[T]"], Any]) -> "Future[Any]":
        """The future of what a function makes of this one."""
        later: Future[Any] = Future()

        def go_on(done: "Future[T]") -> None:
            try:
                later.set_result(callback(done))
            except Exception as error:
                later.set_exception(error)

        self.add_done_callback(go_on)
        return later


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, which is there when all results are."""
    together: Future[list[Future[Any]]] = Future()
    if not futures:
        together.set_result([])

    def check(_: Future[Any]) -> None:
        if not together.done() and all(f.done() for f in futures):
            together.set_result(futures)

    for future in futures:
        future.add_done_callback(check)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all futures."""
    return [future.wait() for future in futures]


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
allow_in_graph = assume_constant_result = nested_compile_region = unchanged


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The compilers that `torch.compile` has: one, under the name of PyTorch's own."""
    return ["inductor"]


def reset() -> None:
    """Nothing to do: what was compiled is kept by the compiled functions."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to do: there are no graphs of a GPU."""


def set_stance(*args: Any, **kwargs: Any) -> Any:
    """A hint, as a function, as a context and as a decorator."""
    return nullcontext()


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

    With `dynamic=True`, the first dimension of arguments may vary; other dimensions are those of the call.

    >>> import lucid.torch as torch
    >>> torch.compile(lambda x: x * 2)(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return lambda function: compile(function, dynamic=dynamic, disable=disable)
    if disable:
        return model
    options = {"dynamic": bool(dynamic)}
    return model.compile(**options) if hasattr(model, "parameters") else compiler.compile(model, **options)


def annotate(kind: Any, value: Any) -> Any:
    """`torch.jit.annotate`: the value."""
    return value


Final = typing.Final  # `torch.jit.Final[int]` is an annotation

# --- torch.fx -------------------------------------------------------------------------------------------


def wrap(fn_or_name: Any) -> Any:
    """`torch.fx.wrap`, which keeps a function from being read: the function itself, or its name."""
    return passed_through(fn_or_name)


class _Unread:
    """The classes of `torch.fx`: programs are not read here, so nothing is an object of one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise NotImplementedError(
            f"torch.fx.{name}: programs are not read here; lucid.func.make_graph gives that of a function"
        )


class Tracer(_Unread):
    """What reads a program in PyTorch."""


class Graph(_Unread):
    """A program that was read."""


class GraphModule(_Unread):
    """A module with a program that was read."""


class Node(_Unread):
    """A step of a program."""


class Proxy(_Unread):
    """What stands for a value while a program is read."""


class Interpreter(_Unread):
    """What runs a program step by step."""


class Transformer(_Unread):
    """What makes a program of another."""


def get_proxy_mode() -> None:
    """Which reader of programs is at work: none."""


def symbolic_trace(root: Any, concrete_args: Any = None) -> Any:
    """Refused: `lucid.func.make_graph` gives the program of a function."""
    return GraphModule()


# Those that PyTorch has in its first namespace.
ROOT = (
    "Future are_deterministic_algorithms_enabled channels_last channels_last_3d compile contiguous_format fork wait get_float32_matmul_precision "
    "get_num_interop_threads memory_format preserve_format set_default_tensor_type set_float32_matmul_precision "
    "set_num_interop_threads use_deterministic_algorithms"
).split()
