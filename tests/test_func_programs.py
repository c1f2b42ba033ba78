"""Random programs that make buffers and views and write into them, under nests of transforms, against NumPy."""

import random
from typing import Any

import numpy as np
import pytest
from nestings import CLOSURES, GRAD, JVP, MAIN, OTHERS, VMAP, Nesting, X, nestings, pairs, tensor

import lucid

SIZE = 4  # elements of a buffer
REFUSALS = ("overwritten by an in-place operation",)


class Lucid:
    """How a program says things with tensors."""

    @staticmethod
    def buffer(x: Any) -> Any:
        return lucid.cat([x, x[:1]])

    @staticmethod
    def zeros() -> Any:
        return lucid.zeros(SIZE, dtype=lucid.float64)

    @staticmethod
    def weights(shape: Any) -> Any:
        return tensor(Numpy.weights(shape))

    @staticmethod
    def copy(v: Any) -> Any:
        return v.clone()

    @staticmethod
    def write(target: Any, value: Any) -> None:
        target.copy_(value)


class Numpy:
    """The same with arrays of complex numbers."""

    @staticmethod
    def buffer(x: Any) -> Any:
        return np.concatenate([x, x[:1]])

    @staticmethod
    def zeros() -> Any:
        return np.zeros(SIZE, complex)

    @staticmethod
    def weights(shape: Any) -> Any:
        return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)

    @staticmethod
    def copy(v: Any) -> Any:
        return v.copy()

    @staticmethod
    def write(target: Any, value: Any) -> None:
        target[...] = value


VIEWS = {
    "tail": lambda v: v[1:],
    "head": lambda v: v[:-1],
    "steps": lambda v: v[::2],
    "square": lambda v: v.reshape(2, 2),
    "flat": lambda v: v.reshape(SIZE),
    "turned": lambda v: v.T,
    "row": lambda v: v[0, ...],  # with the dots NumPy gives a view of one element too
    "column": lambda v: v[:, 1],
    "more": lambda v: v[None],
    "last": lambda v: v[-1, ...],
}


def fits(view: str, shape: tuple[int, ...]) -> bool:
    """Whether a view of this shape exists and has elements."""
    if view in ("square", "flat"):
        return shape in ((SIZE,), (2, 2)) and (view == "square") != (shape == (2, 2))
    if view in ("turned", "column"):
        return len(shape) == 2 and (view == "turned" or shape[1] > 1)
    if view == "more":
        return len(shape) == 1
    return len(shape) > 0 and shape[0] > 1


class Source:
    """A random program as a list of steps that both sides run."""

    def __init__(self, seed: int, length: int = 9) -> None:
        self.choose = random.Random(seed)
        self.shapes: list[tuple[int, ...]] = [(SIZE,), (SIZE,), (2, 2)]
        self.steps: list[tuple[Any, ...]] = []
        for _ in range(length):
            self.choose.choice(
                [self.add_view, self.add_view, self.add_write, self.add_write, self.add_write, self.add_buffer]
            )()

    def any_of(self, shape: tuple[int, ...] | None = None) -> int:
        return self.choose.choice([k for k, s in enumerate(self.shapes) if shape is None or s == shape])

    def add_buffer(self) -> None:
        kind = self.choose.choice(["zeros", "copy"])
        source = self.any_of()
        self.steps.append(("buffer", kind, source))
        self.shapes.append((SIZE,) if kind == "zeros" else self.shapes[source])

    def add_view(self) -> None:
        base = self.any_of()
        views = [v for v in VIEWS if fits(v, self.shapes[base])]
        if views:
            view = self.choose.choice(views)
            self.steps.append(("view", view, base))
            self.shapes.append(VIEWS[view](np.zeros(self.shapes[base])).shape)

    def add_write(self) -> None:
        target = self.any_of()
        other = self.any_of(self.shapes[target])
        value = self.choose.choice(["number", "element", "other", "square"])
        self.steps.append(
            ("write", self.choose.choice(["+=", "*=", "=", "[0]="]), target, value, other, self.choose.randrange(3))
        )

    def run(self, side: Any, x: Any) -> Any:
        values = [side.buffer(x), side.zeros(), side.copy(side.buffer(x).reshape(2, 2))]
        for step in self.steps:
            if step[0] == "buffer":
                values.append(side.zeros() if step[1] == "zeros" else side.copy(values[step[2]]))
            elif step[0] == "view":
                values.append(VIEWS[step[1]](values[step[2]]))
            else:
                self.write(side, x, values, *step[1:])
        # The linear term has a cotangent of its own layout in memory, whatever the layout of the value.
        squares = sum((v * v * (0.3 + 0.1 * k)).sum() for k, v in enumerate(values))
        return (x**3).sum() + squares + sum((v * side.weights(v.shape)).sum() for v in values)

    def write(
        self, side: Any, x: Any, values: list[Any], how: str, target: int, kind: str, other: int, place: int
    ) -> None:
        value = {
            "number": lambda: 1.5,
            "element": lambda: x[place],
            "other": lambda: side.copy(values[other]),
            "square": lambda: side.copy(values[other]) * x[place],
        }[kind]()
        goal = values[target]
        if how == "+=":
            goal += value
        elif how == "*=":
            goal *= value
        elif how == "[0]=" and self.shapes[target]:
            goal[0] = value if kind in ("number", "element") else value[0]
        else:
            side.write(goal, value)

    def reference(self, points: np.ndarray) -> np.ndarray:
        rows = points[0].reshape(-1, points.shape[-1])
        return np.array([self.run(Numpy, row) for row in rows]).reshape(points.shape[1:-1])

    def __repr__(self) -> str:
        return "\n".join(map(str, self.steps))


NESTS = [
    *nestings(MAIN, 1),
    *nestings(MAIN, 2),
    *[
        Nesting(c)
        for c in ((GRAD, JVP, JVP), (GRAD, VMAP, JVP), (JVP, VMAP, GRAD), (VMAP, JVP, JVP), (VMAP, VMAP, JVP))
    ],
    *nestings(CLOSURES, 1),
    *pairs([s for s in OTHERS if s.name in ("program", "checkpoint", "linearize")], MAIN),
]


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    source = Source(seed)
    np.testing.assert_allclose(
        source.run(Lucid, tensor(X)).item(), source.run(Numpy, X.astype(complex)).real, rtol=1e-12
    )
    refused = 0
    for nesting in NESTS if seed % 6 == 0 else NESTS[:20]:
        want = nesting.expected(source.reference)
        try:
            got = nesting.of_tensors(lambda x: source.run(Lucid, x))(tensor(X)).item()
        except RuntimeError as error:
            if nesting.on_tape and any(r in str(error) for r in REFUSALS):
                refused += 1
                continue
            raise AssertionError(f"{nesting} of\n{source}") from error
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9, err_msg=f"{nesting} of\n{source}")
    assert refused == 0, f"{refused} nestings were refused, though every value is copied before it is used\n{source}"
