"""A table of a model's layers: shapes, parameters, work and memory, measured on one run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import lucid
from lucid import Tensor
from lucid.core import levels
from lucid.core.fields import new_tensor
from lucid.kinds.kind import Kind
from lucid.nn.module import Module

__all__ = ["Summary", "summary"]


@dataclass
class LayerSummary:
    """One line of the table. Numbers include everything below the layer."""

    name: str
    kind: str
    depth: int
    parameters: int
    parameter_bytes: int
    output_shape: Any = None
    calls: int = 0
    flops: int = 0
    activation_bytes: int = 0

    @property
    def memory(self) -> int:
        """Bytes of parameters and activations."""
        return self.parameter_bytes + self.activation_bytes


@dataclass
class Summary:
    """What `summary` found; printing it gives the table.

    >>> from lucid.nn.module import Module
    >>> from lucid.nn.summary import Summary, summary
    >>> class Identity(Module):
    ...     def forward(self, x):
    ...         return x
    >>> isinstance(summary(Identity(), (2, 3)), Summary)
    True
    """

    layers: list[LayerSummary]
    trainable_parameters: int
    input_bytes: int

    @property
    def total_parameters(self) -> int:
        """How many numbers the model holds as parameters; shared ones count once."""
        return self.layers[0].parameters

    @property
    def flops(self) -> int:
        """Multiply-adds of the products in one forward pass."""
        return self.layers[0].flops

    @property
    def memory(self) -> int:
        """Bytes of parameters, inputs and activations."""
        return self.layers[0].memory + self.input_bytes

    def __repr__(self) -> str:
        header = ("Layer", "Output shape", "Parameters", "Multiply-adds", "Memory")
        rows = [_cells(layer) for layer in self.layers]
        widths = [max(len(row[c]) for row in [header, *rows]) for c in range(len(header))]
        rule = "=" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [_aligned(header, widths), rule, *(_aligned(row, widths) for row in rows), rule]
        whole = self.layers[0]
        frozen = whole.parameters - self.trainable_parameters
        lines += [
            f"Parameters: {whole.parameters:,} ({self.trainable_parameters:,} trainable, {frozen:,} frozen)",
            f"Multiply-adds of matrix products, contractions and convolutions: {whole.flops:,}",
            f"Memory: {_bytes(self.memory)} (parameters {_bytes(whole.parameter_bytes)}, input "
            f"{_bytes(self.input_bytes)}, outputs of layers without sublayers {_bytes(whole.activation_bytes)})",
        ]
        return "\n".join(lines)

    __str__ = __repr__


def _cells(layer: LayerSummary) -> tuple[str, ...]:
    title = "  " * layer.depth + (f"{layer.name}: {layer.kind}" if layer.name else layer.kind)
    if not layer.calls:
        return title, "not run", f"{layer.parameters:,}", "-", _bytes(layer.parameter_bytes)
    title += f" (called {layer.calls} times)" if layer.calls > 1 else ""
    return title, str(layer.output_shape), f"{layer.parameters:,}", f"{layer.flops:,}", _bytes(layer.memory)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = [c.ljust(w) for c, w in zip(cells[:2], widths[:2], strict=True)]
    right = [c.rjust(w) for c, w in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join(left + right).rstrip()


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def summary(model: Module, input: Any, *, dtype: Any = None, kwargs: dict[str, Any] | None = None) -> Summary:
    """Run a model once and tell what its layers give, hold and cost.

    `input` is a tensor, a tuple of arguments, a shape, or a list of shapes; for shapes, zeros of `dtype` are used.
    The multiply-adds counted are those of the products (`matmul`, `einsum`, convolutions, attention) that are really
    run and that depend on the input; additions of biases, activations and norms are not. The run is unrecorded and in evaluation mode; afterwards the modes and hooks of
    the model are what they were.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.summary import summary
    >>> class Linear(Module):
    ...     def __init__(self, inputs, outputs):
    ...         super().__init__()
    ...         self.weight = Parameter(lucid.zeros(outputs, inputs))
    ...     def forward(self, x):
    ...         return x @ self.weight.T
    >>> summary(Linear(20, 30), (8, 20))
    Layer   Output shape  Parameters  Multiply-adds   Memory
    ========================================================
    Linear  (8, 30)              600          4,800  3.3 KiB
    ========================================================
    Parameters: 600 (600 trainable, 0 frozen)
    Multiply-adds of matrix products, contractions and convolutions: 4,800
    Memory: 3.9 KiB (parameters 2.3 KiB, input 640 B, outputs of layers without sublayers 960 B)
    """
    arguments = _arguments(input, dtype)
    tally = _Tally(model)
    inputs = [tally.watched(a) for a in arguments]
    extra = {name: tally.watched(value) for name, value in (kwargs or {}).items()}
    with _watching(model, tally), lucid.no_grad(), lucid.fork_rng():
        model(*inputs, **extra)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    given = [t for t in [*arguments, *(kwargs or {}).values()] if isinstance(t, Tensor)]
    return Summary(list(tally.layers.values()), trainable, sum(t.nbytes for t in given))


def _arguments(input: Any, dtype: Any) -> list[Any]:
    if isinstance(input, Tensor):
        return [input]
    if not isinstance(input, (tuple, list)) or not len(input):
        raise TypeError(f"summary needs a tensor, a tuple of arguments, a shape or a list of shapes, not {input!r}")
    if all(isinstance(n, int) for n in input):
        return [lucid.zeros(*input, dtype=dtype)]
    if all(isinstance(shape, (tuple, list)) and all(isinstance(n, int) for n in shape) for shape in input):
        return [lucid.zeros(*shape, dtype=dtype) for shape in input]
    return list(input)


class Watched(Kind):
    """A tensor whose operations are counted while they run on the tensor inside."""

    __slots__ = ()
    transform_name = "summary"

    @staticmethod
    def make(value: Tensor, tally: "_Tally") -> "Watched":
        out: Watched = new_tensor(Watched, value, tally, tally.level)
        return out

    def shell(self) -> "Watched":
        return Watched.make(self._array, self._aux)

    def _detached(self) -> "Watched":
        return Watched.make(self._array.detach(), self._aux)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    def _held_array(self, wanted_by: str) -> Any:
        return self._array._held_array(wanted_by)

    def _copy_contents(self) -> None:
        self._array = self._array.clone()

    def absorb(self, target: Tensor) -> None:
        """Make a tensor that the model has made a watched one."""
        inner = target.shell()
        target.__class__ = Watched
        target._array, target._aux, target._level = inner, self._aux, self._level

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is."""
        return bool(getattr(new, "_level", 0) <= self._level)

    def _write(self, new: Tensor, name: str) -> None:
        self._array.copy_(self._inside(new))

    def _inside(self, value: Any) -> Any:
        return value._array if isinstance(value, Watched) and value._level == self._level else value

    def describe_contents(self, prefix: str) -> str:
        """The elements as text."""
        return self._array.describe_contents(prefix)

    def interpret(self, prim: Any, args: Any, params: dict[str, Any]) -> Any:
        """Run a primitive on what is inside, and count its work; of a fused one, that of the primitives it fuses."""
        if getattr(prim, "composite", None) is not None:
            return prim.composite(*args, **params)
        inside = [self._inside(a) for a in args]
        out = prim(*inside, **params)
        self._aux.count(prim, inside, out, params)
        if prim.multi:
            return tuple(Watched.make(o, self._aux) for o in out)
        return Watched.make(out, self._aux)


@dataclass
class _Tally:
    """Counts what is done inside each layer."""

    model: Module
    level: int = field(default_factory=levels.new_level)
    layers: dict[int, LayerSummary] = field(default_factory=dict)
    running: list[LayerSummary] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path, module in self.model.named_modules():
            parameters = list(module.parameters())
            self.layers[id(module)] = LayerSummary(
                name=path.rpartition(".")[2],
                kind=type(module).__name__,
                depth=path.count(".") + 1 if path else 0,
                parameters=sum(p.numel() for p in parameters),
                parameter_bytes=sum(p.nbytes for p in parameters),
            )

    def watched(self, value: Any) -> Any:
        """An argument of the model in the form in which its operations are counted."""
        return Watched.make(value, self) if isinstance(value, Tensor) else value

    def count(self, prim: Any, operands: list[Any], out: Any, params: dict[str, Any]) -> None:
        rule = getattr(prim, "multiply_adds", None)
        if rule is not None:
            work = rule([getattr(o, "shape", ()) for o in operands], out.shape, params)
            for layer in self.running:
                layer.flops += work

    def enter(self, module: Module, args: Any) -> None:
        layer = self.layers[id(module)]
        layer.calls += 1
        self.running.append(layer)

    def leave(self, module: Module, args: Any, output: Any) -> None:
        layer = self.layers[id(module)]
        layer.output_shape = _shapes(output)
        if not any(True for _ in module.children()):
            size = sum(t.nbytes for t in _tensors(output))
            for outer in self.running:
                outer.activation_bytes += size
        self.running.pop()


@contextmanager
def _watching(model: Module, tally: _Tally) -> Iterator[None]:
    """The model in evaluation mode with counting hooks; everything is put back at the end."""
    modules = list(model.modules())
    modes = [m.training for m in modules]
    handles = []
    try:
        for module in modules:
            handles.append(module.register_forward_pre_hook(tally.enter, prepend=True))
            handles.append(module.register_forward_hook(tally.leave))
            module.training = False
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
            for name, value in list(vars(module).items()):
                if isinstance(value, Watched):  # a result that the model keeps
                    setattr(module, name, value._array)


def _tensors(nest: Any) -> list[Tensor]:
    if isinstance(nest, Tensor):
        return [nest]
    parts = nest.values() if isinstance(nest, dict) else nest if isinstance(nest, (tuple, list)) else ()
    return [t for part in parts for t in _tensors(part)]


def _shapes(nest: Any) -> Any:
    found = [t.shape for t in _tensors(nest)]
    return found[0] if len(found) == 1 else found
