"""Recurrent layers: RNN, LSTM and GRU over sequences, and their cells for single steps."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional.dropout import dropout as drop
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.nn.utils.rnn import PackedSequence
from lucid.ops.nn import recurrent as ops

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


class _Recurrent(Module):
    """What layers and cells share."""

    _operation: ClassVar[Any]
    _gates: ClassVar[int]
    hidden_size: int

    def _add_weight(self, name: str, wanted: bool, shape: tuple[int, ...], device: Any, dtype: Any) -> None:
        value = Parameter(lucid.empty(shape, device=device, dtype=dtype)) if wanted else None
        self.register_parameter(name, value)

    def reset_parameters(self) -> None:
        """Draw all weights and biases evenly from ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _settings(self) -> dict[str, Any]:
        """What the operation wants to know beside its operands."""
        return {}


class _Tanh(_Recurrent):
    """The plain recurrence h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu."""

    _operation = ops.rnn
    _gates = 1
    nonlinearity: str

    def _set_nonlinearity(self, name: str) -> None:
        if name not in ("tanh", "relu"):
            raise ValueError(f"{self._get_name()}: nonlinearity must be 'tanh' or 'relu', not {name!r}")
        self.nonlinearity = name

    def _settings(self) -> dict[str, Any]:
        return {"relu": self.nonlinearity == "relu"}


class _Layers(_Recurrent):
    """Layers on top of each other, in one direction or both."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = self._get_name()
        if hidden_size < 1 or num_layers < 1:
            raise ValueError(f"{name}: hidden_size {hidden_size} and num_layers {num_layers} must be at least 1")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be a probability between 0 and 1, not {dropout}")
        if dropout and num_layers == 1:
            warnings.warn(f"{name}: dropout acts between layers, and there is only one", stacklevel=3)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for names, size in self._places():
            self._add_weights(names, size, device, dtype)
        self.reset_parameters()

    def _places(self) -> list[tuple[list[str], int]]:
        """For each layer and direction the names of its weights, and the size of its input."""
        found = []
        directions = ("", "_reverse") if self.bidirectional else ("",)
        for layer in range(self.num_layers):
            size = (self.proj_size or self.hidden_size) * len(directions) if layer else self.input_size
            for suffix in directions:
                stems = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
                found.append(([f"{stem}_l{layer}{suffix}" for stem in stems], size))
        return found

    def _add_weights(self, names: list[str], size: int, device: Any, dtype: Any) -> None:
        rows, out = self._gates * self.hidden_size, self.proj_size or self.hidden_size
        shapes: list[tuple[int, ...]] = [(rows, size), (rows, out), (rows,), (rows,), (out, self.hidden_size)]
        wanted = [True, True, self.bias, self.bias, self.proj_size > 0]
        for name, shape, want in zip(names, shapes, wanted, strict=True):
            self._add_weight(name, want, shape, device, dtype)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction."""
        named = [[getattr(self, name) for name in names] for names, _ in self._places()]
        return [[w for w in weights if w is not None] for weights in named]

    def flatten_parameters(self) -> None:
        """Weights are used where they are: there is nothing to do, and this stands for code that asks for it."""

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size,)

    def forward(self, input: Any, hx: Any = None) -> Any:
        rows, sizes, order = self._packed(input)
        if rows.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{self._get_name()}: the input must have {self.input_size} features in its last dimension, not shape "
                f"{input.data.shape if isinstance(input, PackedSequence) else input.shape}"
            )
        alone = not isinstance(input, PackedSequence) and input.ndim == 2
        states = self._states(hx, sizes[0], alone, rows, order)
        rows, finals = self._run(rows, states, sizes)
        if order is not None:
            finals = [f.index_select(1, input.unsorted_indices) for f in finals]
        if alone:
            finals = [f.squeeze(1) for f in finals]
        return self._unpacked(rows, input, sizes), finals[0] if len(finals) == 1 else tuple(finals)

    def _packed(self, input: Any) -> tuple[Tensor, tuple[int, ...], Tensor | None]:
        """The input step by step as rows, how many belong to each step, and in which order sequences stand."""
        if isinstance(input, PackedSequence):
            return input.data, tuple(input.batch_sizes.tolist()), input.sorted_indices
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{self._get_name()} takes inputs with 3 dimensions, or 2 without a batch, not shape {input.shape}"
            )
        if input.ndim == 2:
            return input, (1,) * self._length(input.shape[0]), None
        steps = input.transpose(0, 1) if self.batch_first else input
        length, batch, size = steps.shape
        return steps.reshape(length * batch, size), (batch,) * self._length(length), None

    def _length(self, length: int) -> int:
        if not length:
            raise RuntimeError(f"{self._get_name()} needs sequences of at least one step")
        return length

    def _unpacked(self, rows: Tensor, input: Any, sizes: tuple[int, ...]) -> Any:
        """The result in the form of the input."""
        if isinstance(input, PackedSequence):
            return input._replace(data=rows)
        if input.ndim == 2:
            return rows
        steps = rows.reshape(len(sizes), sizes[0], rows.shape[-1])
        return steps.transpose(0, 1) if self.batch_first else steps

    def _states(self, hx: Any, batch: int, alone: bool, like: Tensor, order: Tensor | None) -> list[Any]:
        """The first states, (layers and directions, batch, size) each."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, batch, size) for size in self._state_sizes()]
        if hx is None:
            return [lucid.zeros(shape, dtype=like.dtype) for shape in shapes]
        given = list(hx) if isinstance(hx, Sequence) else [hx]
        wanted = [(s[0], s[2]) for s in shapes] if alone else shapes
        if len(given) != len(shapes) or any(g.shape != w for g, w in zip(given, wanted, strict=True)):
            raise RuntimeError(
                f"{self._get_name()}: the first state must have shape {' and '.join(map(str, wanted))}, "
                f"not {' and '.join(str(g.shape) for g in given)}"
            )
        given = [g.unsqueeze(1) for g in given] if alone else given
        return given if order is None else [g.index_select(1, order) for g in given]

    def _run(self, rows: Tensor, states: list[Any], sizes: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
        """All layers in all directions; the last layer's result and all states behind the last step."""
        directions = 2 if self.bidirectional else 1
        finals: list[list[Tensor]] = []
        results: list[Tensor] = []
        for k, (names, _) in enumerate(self._places()):
            *weights, w_hr = [getattr(self, name) for name in names]
            first = [s[k] for s in states] + ([w_hr] if len(states) == 2 else [])
            how = {"sizes": sizes, "reverse": k % directions == 1, **self._settings()}
            y, *after = ops.run(self._operation, rows, *weights, *first, **how)
            finals.append(after)
            results.append(y)
            if len(results) == directions:
                rows = y if directions == 1 else lucid.cat(results, -1)
                results = []
                if self.dropout and self.training and k + 1 < len(states[0]):
                    rows = drop(rows, self.dropout)
        return rows, [lucid.stack(column) for column in zip(*finals, strict=True)]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, value in {**usual, "bidirectional": False}.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(_Layers, _Tanh):
    """Recurrent layers h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with `nonlinearity="relu"`.

    Inputs are (length, batch, input_size), with `batch_first` (batch, length, input_size), without a batch
    (length, input_size), or packed. Gives the results of the last layer for all steps, and the last state of all layers,
    (num_layers · directions, batch, hidden_size). `dropout` acts between layers.

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import RNN
    >>> output, h = RNN(3, 5, num_layers=2, bidirectional=True)(lucid.rand(7, 2, 3))
    >>> output.shape, h.shape
    ((7, 2, 10), (4, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self._set_nonlinearity(nonlinearity)


class LSTM(_Layers):
    """Layers of long short-term memory: c' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c').

    The gates i f g o are stacked: (i, f, g, o) = W_ih x + b_ih + W_hh h + b_hh. With `proj_size`, h' is projected to that
    size by weight_hr. Inputs and results are as for `RNN`; the state is a pair (h, c).

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import LSTM
    >>> output, (h, c) = LSTM(3, 5, batch_first=True)(lucid.rand(2, 7, 3))
    >>> output.shape, h.shape, c.shape
    ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    """

    _operation = ops.lstm
    _gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ValueError(f"LSTM: proj_size {proj_size} must be less than hidden_size {hidden_size}, or 0 for none")
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )

    def _state_sizes(self) -> tuple[int, ...]:
        return self.proj_size or self.hidden_size, self.hidden_size


class GRU(_Layers):
    """Layers of gated recurrent units: h' = (1 - z)·n + z·h with n = tanh(W_in x + b_in + r·(W_hn h + b_hn)).

    The gates r = σ(...), z = σ(...) and n are stacked in this order. Inputs and results are as for `RNN`.

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import GRU
    >>> output, h = GRU(3, 5)(lucid.rand(7, 3))
    >>> output.shape, h.shape
    ((7, 5), (1, 5))
    """

    _operation = ops.gru
    _gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


class _Cell(_Recurrent):
    """One step of a recurrent layer."""

    _state_count = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if hidden_size < 1:
            raise ValueError(f"{self._get_name()}: hidden_size must be at least 1, not {hidden_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self._gates * hidden_size
        self._add_weight("weight_ih", True, (rows, input_size), device, dtype)
        self._add_weight("weight_hh", True, (rows, hidden_size), device, dtype)
        self._add_weight("bias_ih", bias, (rows,), device, dtype)
        self._add_weight("bias_hh", bias, (rows,), device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            wanted = f"(batch, {self.input_size}) or ({self.input_size},)"
            raise RuntimeError(f"{self._get_name()}: the input must have shape {wanted}, not {input.shape}")
        alone = input.ndim == 1
        state_shape = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            states = [lucid.zeros(state_shape, dtype=input.dtype)] * self._state_count
        else:
            states = list(hx) if isinstance(hx, Sequence) else [hx]
        if len(states) != self._state_count or any(s.shape != state_shape for s in states):
            raise RuntimeError(
                f"{self._get_name()}: each state must have shape {state_shape}, not {[s.shape for s in states]}"
            )
        x, *states = [t.unsqueeze(0) if alone else t for t in (input, *states)]
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        last = [None] if self._state_count == 2 else []
        how = {"sizes": (x.shape[0],), "reverse": False, **self._settings()}
        _, *after = ops.run(self._operation, x, *weights, *states, *last, **how)
        after = [s.squeeze(0) for s in after] if alone else after
        return after[0] if self._state_count == 1 else tuple(after)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None


class RNNCell(_Cell, _Tanh):
    """One step of `RNN`: takes (batch, input_size) and a state, or without a batch, and gives the next state.

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import RNNCell
    >>> RNNCell(3, 5)(lucid.rand(2, 3)).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self._set_nonlinearity(nonlinearity)


class LSTMCell(_Cell):
    """One step of `LSTM`: takes (batch, input_size) and a pair (h, c), and gives the next pair.

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import LSTMCell
    >>> h, c = LSTMCell(3, 5)(lucid.rand(2, 3))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    _operation = ops.lstm
    _gates = 4
    _state_count = 2


class GRUCell(_Cell):
    """One step of `GRU`: takes (batch, input_size) and a state, and gives the next state.

    >>> import lucid
    >>> from lucid.nn.layers.recurrent import GRUCell
    >>> GRUCell(3, 5)(lucid.rand(3)).shape
    (5,)
    """

    _operation = ops.gru
    _gates = 3
