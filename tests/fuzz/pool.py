"""The values that the statements of a program share, while the program is being made.

A statement is tried on tensors at once: what it refuses is left out, and what it gives tells shapes and types to the
statements that come after it.
"""

import random
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from checks import REFUSALS

from fuzz.program import NAMES, Array, Line, Program, array, is_float, is_narrow, tensor
from lucid.core.tensor import Tensor

SIZES = (1, 2, 3, 5)
SHAPES = ((), (1,), (2,), (3,), (5,), (1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (1, 2, 3), (2, 2, 3))
MOST = 40  # elements of a value
LARGEST = 30.0  # absolute values above it are not used further
NAME = re.compile(r"\b[xvk]\d+\b")


class CrashError(Exception):
    """A statement ended in an error that no statement may end in; it is the last line of the program."""

    def __init__(self, program: Program, error: BaseException) -> None:
        super().__init__(str(error))
        self.program, self.error = program, error


class Pool:
    def __init__(self, choose: random.Random, dtype: str, parity: bool) -> None:
        self.choose, self.dtype, self.parity = choose, dtype, parity
        self.rng = np.random.default_rng(choose.getrandbits(32))
        self.inputs: dict[str, Array] = {}
        self.values: dict[str, Any] = {}  # all names, inputs included
        self.constants: dict[str, Any] = {}
        self.lines: list[Line] = []
        self.unbatched: set[str] = set()
        self._staged: dict[str, Array] = {}  # inputs of the statement that is being written
        self._count = 0

    # --- making names --------------------------------------------------------------------------

    def new_name(self, letter: str = "v") -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def leaf(self, a: Array, batched: bool = True) -> str:
        """A new input for the statement that is being written."""
        name = self.new_name("x")
        self._staged[name] = a
        if not batched:
            self.unbatched.add(name)
        return name

    def forget(self) -> None:
        """Leave the statement that is being written unwritten."""
        self._staged = {}

    def value(self, name: str) -> Any:
        return self.values[name] if name in self.values else self._staged[name]

    def constant(self, value: Any) -> str:
        name = self.new_name("k")
        self.constants[name] = value
        return name

    def random_array(self, shape: Sequence[int], dtype: str | None = None) -> Array:
        """Random numbers with two decimals; now and then exact zeros and equal ones."""
        name = np.dtype(dtype or self.dtype)
        values = np.round(self.rng.uniform(-2, 2, shape), 2)
        if name.kind == "c":
            values = values + 1j * np.round(self.rng.uniform(-1, 1, shape), 2)
        if self.choose.random() < 0.1:
            values = np.asarray(np.where(self.rng.random(shape) < 0.4, 0.0, values))
        return np.asarray(values).astype(name)

    # --- choosing ------------------------------------------------------------------------------

    def of(self, test: Callable[[Any], bool]) -> list[str]:
        return [name for name, v in self.values.items() if isinstance(v, Tensor) and test(v)]

    def pick(self, names: Sequence[str]) -> str | None:
        """One of them; the later ones are likelier."""
        if not names:
            return None
        return names[max(self.choose.randrange(len(names)), self.choose.randrange(len(names)))]

    def usable(self, v: Any) -> bool:
        """A value of floats of the program's type, of moderate size."""
        a = array(v)
        return a.dtype == self.dtype and a.size <= MOST and bool(a.size) and bool(np.all(np.abs(a) < LARGEST))

    def any_float(self, test: Callable[[Any], bool] = lambda v: True) -> str | None:
        return self.pick(self.of(lambda v: is_float(v) and self.usable(v) and test(v)))

    def fitting(self, shape: tuple[int, ...]) -> str | None:
        """A value that broadcasts to this shape."""

        def fits(v: Any) -> bool:
            ours = v.shape
            return len(ours) <= len(shape) and all(a in (1, b) for a, b in zip(ours[::-1], shape[::-1], strict=False))

        return self.any_float(fits)

    def writable(self, test: Callable[[Any], bool] = lambda v: True) -> str | None:
        """A value whose memory is that of no input."""
        leaves = [array(self.values[name]) for name in self.inputs]

        def may_write(v: Any) -> bool:
            a = array(v)
            return test(v) and a.flags.writeable and not any(np.may_share_memory(a, leaf) for leaf in leaves)

        return self.any_float(may_write)

    # --- adding --------------------------------------------------------------------------------

    def add(self, text: str, op: str, results: Any = None, **flags: Any) -> bool:
        """Try a statement and keep it if it runs.

        `text` is an expression, whose results get names, or with `results=()` a statement that stands for itself.
        """
        staged, self._staged = self._staged, {}
        variables = {**self.values, **{name: made(a) for name, a in staged.items()}}
        names = {**NAMES, **self.constants}
        defines: tuple[str, ...] = ()
        target = text
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if results is None:
                    found = eval(text, names, variables)
                    target, new = self._unpacked(found)
                    target, defines = f"{target} = {text}", tuple(new)
                    variables.update(new)
                else:
                    exec(text, names, variables)
        except REFUSALS as error:
            if isinstance(error, NotImplementedError):
                raise CrashError(self._ending(text, op, staged, flags), error) from error
            return False
        except Exception as error:
            raise CrashError(self._ending(text, op, staged, flags), error) from error
        if results is None and not defines:
            return False
        uses = tuple(dict.fromkeys(NAME.findall(text)))
        self.inputs.update(staged)
        self.values = variables
        narrow = any(is_narrow(array(variables[n])) for n in defines)
        self.lines.append(Line(target, defines, uses, op, narrow=narrow, **flags))
        return True

    def _ending(self, text: str, op: str, staged: dict[str, Array], flags: dict[str, Any]) -> Program:
        line = Line(text, (), tuple(dict.fromkeys(NAME.findall(text))), op, **flags)
        return Program({**self.inputs, **staged}, (*self.lines, line), (), constants=self.constants)

    def _unpacked(self, result: Any) -> tuple[str, dict[str, Any]]:
        """Names for a nest of results, as the left side of an assignment."""
        if isinstance(result, list | tuple):
            parts = [self._unpacked(r) for r in result]
            left = "".join(f"{text}, " for text, _ in parts).rstrip()
            return f"({left})", {k: v for _, new in parts for k, v in new.items()}
        name = self.new_name()
        return name, {name: result} if isinstance(result, Tensor) else {}

    def finished(self) -> Program:
        """The program: what nobody reads goes out, and a few others with it."""
        read = {name for line in self.lines for name in line.uses}
        made = [n for line in self.lines for n in line.defines if array(self.values[n]).size]
        outputs = [n for n in made if n not in read or self.choose.random() < 0.2]
        return Program(
            self.inputs, tuple(self.lines), tuple(outputs[-8:]), frozenset(self.unbatched), dict(self.constants)
        )


def made(a: Array) -> Tensor:
    x = tensor(a)
    return x.requires_grad_() if is_float(a) else x
