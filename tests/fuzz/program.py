"""A program: named arrays that come in, lines of Python source, and the names that go out.

Lines are plain text, so that one program runs here, runs in PyTorch (where `lucid` stands for `torch`), shrinks by
leaving lines out, and can be pasted into a test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np
from checks import outermost_first
from table import ROWS

import lucid
from lucid.core import dtypes
from lucid.core.tensor import Tensor

Array = np.ndarray
NAMES: dict[str, Any] = {"lucid": lucid, "np": np, "math": math, "rows": {row.name: row.op for row in ROWS}}


class Sent:
    """What is sent between processes without what is derived from it."""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Line(Sent):
    """One statement: its text, the names it defines and reads, and what is particular about it."""

    text: str
    defines: tuple[str, ...]
    uses: tuple[str, ...]
    op: str  # what differences are filed under
    row: str = ""  # the row of the table that it calls
    batchable: bool = True  # the shapes of its results do not depend on values
    in_torch: bool = True
    detaches: bool = False  # a derivative is not that of the values
    narrow: bool = False  # a result has few digits

    @cached_property
    def code(self) -> CodeType:
        return compile(self.text, self.op, "exec")


@dataclass(frozen=True)
class Program(Sent):
    inputs: Mapping[str, Array]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    unbatched: frozenset[str] = frozenset()  # inputs that decide on shapes
    constants: Mapping[str, Any] = field(default_factory=dict)  # objects without a literal

    @cached_property
    def names(self) -> dict[str, Any]:
        return {**NAMES, **self.constants}

    @cached_property
    def code(self) -> CodeType:
        return compile("\n".join(line.text for line in self.lines), "program", "exec")

    @cached_property
    def floats(self) -> tuple[str, ...]:
        """The inputs to differentiate by."""
        return tuple(name for name, a in self.inputs.items() if is_float(a))

    @property
    def batchable(self) -> bool:
        return all(line.batchable for line in self.lines)

    @property
    def detaches(self) -> bool:
        return any(line.detaches for line in self.lines)

    @property
    def in_torch(self) -> bool:
        return all(line.in_torch for line in self.lines)

    @cached_property
    def narrow(self) -> bool:
        return any(map(is_narrow, self.inputs.values())) or any(line.narrow for line in self.lines)

    @cached_property
    def finite(self) -> bool:
        return all(np.isfinite(a).all() for a in self.inputs.values())

    @property
    def op(self) -> str:
        """What a difference of the whole program is filed under: its last statement."""
        return self.lines[-1].op if self.lines else "nothing"

    def __call__(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        variables = dict(values)
        exec(self.code, self.names, variables)
        return tuple(variables[name] for name in self.outputs)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor(a) for name, a in self.inputs.items()}

    def with_lines(self, lines: Sequence[Line], outputs: Sequence[str]) -> "Program":
        """The same inputs, without those that are not read any more."""
        read = {name for line in lines for name in line.uses} | set(outputs)
        inputs = {name: a for name, a in self.inputs.items() if name in read}
        return replace(self, inputs=inputs, lines=tuple(lines), outputs=tuple(outputs))

    def source(self, arguments: Sequence[str] | None = None) -> str:
        """Its inputs and a function of them, or of some of them, to be pasted."""
        given = list(self.inputs) if arguments is None else arguments
        head = [f"{name} = lucid.tensor({literal(a)})" for name, a in self.inputs.items()]
        head += [f"{name} = {value!r}  # not a literal" for name, value in self.constants.items() if self._reads(name)]
        rows = ["from table import ROWS"] if self._reads("rows[") else []
        named = ["rows = {row.name: row.op for row in ROWS}"] if rows else []
        back = f"return ({''.join(f'{name}, ' for name in self.outputs).rstrip()})" if self.outputs else "return ()"
        imports = ["import numpy as np", *rows, "import lucid", "from lucid import autograd, func"]
        body = [f"    {text}" for text in (*(line.text for line in self.lines), back)]
        return "\n".join([*imports, "", *named, *head, "", f"def f({', '.join(given)}):", *body])

    def _reads(self, word: str) -> bool:
        return any(word in line.text for line in self.lines)


def tensor(a: Array) -> Tensor:
    """A tensor with memory of its own, laid out as the array is."""
    return lucid.from_numpy(np.array(a, order="K"))


def is_float(value: Any) -> bool:
    return (value.np_dtype if isinstance(value, Tensor) else value.dtype) in dtypes.DIFFERENTIABLE


def is_narrow(a: Array) -> bool:
    return a.dtype.name in ("float32", "complex64", "float16", "bfloat16")


def array(x: Any) -> Array:
    found: Array = x._concrete("the fuzzer") if isinstance(x, Tensor) else np.asarray(x)
    return found


def literal(a: Array) -> str:
    """An array as source."""
    if not a.size:
        return f"np.zeros({a.shape}, np.{a.dtype.name})"
    if not a.flags.c_contiguous:
        order = outermost_first(a)
        return f"{literal(np.ascontiguousarray(a.transpose(order)))}.transpose{tuple(map(int, np.argsort(order)))}"
    with np.printoptions(precision=17, threshold=10_000, floatmode="unique"):
        text = np.array2string(a, separator=", ").replace("\n", "")
    for word in ("nan", "inf"):
        text = text.replace(word, f"np.{word}")
    return f"np.array({' '.join(text.split())}, np.{a.dtype.name})"
