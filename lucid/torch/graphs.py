"""`torch.fx`: programs are not read here, so its decorators hand functions back, and nothing is an object of its classes."""

from typing import Any

from lucid.torch.hints import passed_through


def wrap(fn_or_name: Any) -> Any:
    """`torch.fx.wrap`, which keeps a function from being read: the function itself, or its name."""
    return passed_through(fn_or_name)


class _Absent:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise NotImplementedError(
            f"torch.fx.{name}: programs are not read here; lucid.func.make_graph gives that of a function"
        )


class Tracer(_Absent):
    """What reads a program in PyTorch."""


class Graph(_Absent):
    """A program that was read."""


class GraphModule(_Absent):
    """A module with a program that was read."""


class Node(_Absent):
    """A step of a program."""


class Proxy(_Absent):
    """What stands for a value while a program is read."""


class Interpreter(_Absent):
    """What runs a program step by step."""


class Transformer(_Absent):
    """What makes a program of another."""


def symbolic_trace(root: Any, concrete_args: Any = None) -> Any:
    """Refused: `lucid.func.make_graph` gives the program of a function."""
    return GraphModule()


__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "symbolic_trace", "wrap"]
