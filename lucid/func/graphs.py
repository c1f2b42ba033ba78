"""make_graph: a function as a program of primitives, which can be printed and run again on other values."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.ir.program import Program
from lucid.ir.trace import traced


def make_graph(func: Callable[..., Any]) -> Callable[..., Program]:
    """A function that runs `func` once on stand-ins for its arguments and gives the `Program` of primitives that this was.

    Everything that `func` does with tensors is in the program, also what `backward` and transforms inside it do; what
    it writes in place appears as new values, and its arguments stay as they are. Only their shapes and types matter:
    nothing is computed. Tensors that `func` finds outside are read anew at each run, and gradients reach them. What
    `func` writes to them is written at the end of each run, and random numbers are drawn anew, as `func` would do
    it: these are the program's `effects`. What `func` makes by itself is fixed: Python numbers and shapes.

    >>> import lucid
    >>> def f(x):
    ...     y = x.exp()
    ...     y[0] = 0.0
    ...     return (x * y).sum()
    >>> program = lucid.func.make_graph(f)(lucid.tensor([1.0, 2.0]))
    >>> print(program)
    f(a: float32[2]):
      b: float32[] = constant 0.0
      c: float32[2] = exp a
      d: float32[] = slice c [index=(0)]
      e: float32[] = overwrite d b
      f: float32[2] = write_view c e [through=slice settings={index: (0)}]
      g: float32[2] = mul a f
      h: float32[] = sum g [dims=(0) keepdim=False]
      return h
    >>> lucid.func.grad(program)(lucid.tensor([1.0, 0.0]))
    Tensor([0., 1.])
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Program:
        return traced(func, args, kwargs)

    return call
