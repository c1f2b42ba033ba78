"""The contestants: one small adapter for each library, so that a workload is written once."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

Loss = Callable[..., Any]
Thunk = Callable[[], Any]


class Library:
    """A library with a tape: leaves, operations on them, `backward()`, `leaf.grad`."""

    name: str
    module: str

    def __init__(self) -> None:
        self.version = "?"

    def leaf(self, array: np.ndarray) -> Any:
        """A value by which gradients are taken, made as the library's users make one."""
        raise NotImplementedError

    def constant(self, array: np.ndarray) -> Any:
        """A value without gradient."""
        raise NotImplementedError

    def shared(self, array: np.ndarray) -> Any:
        """A value without gradient over the array's own memory, where the library has such a thing."""
        return self.constant(array)

    own: Mapping[str, Callable[["Library"], Thunk]] = MappingProxyType(
        {}
    )  # workloads that are written for it alone, by name
    func: Any  # the library's transforms, where it has some
    namespace: Any  # the module with `nn` and `optim`, where it has them

    def gradients(self, value: Any, inputs: Sequence[Any], create_graph: bool) -> Sequence[Any]:
        """Gradients by inputs that may be anywhere on the tape."""
        raise NotImplementedError

    def prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function as it is to be called many times: compiled, where that is what is measured."""
        return function

    def relu(self, x: Any) -> Any:
        return x.relu()

    def forget(self, leaf: Any) -> None:
        """Drop the gradient of the last pass."""
        leaf.grad = None

    def array(self, value: Any) -> np.ndarray:
        """A result as an array, to be compared with the other libraries' results."""
        return np.asarray(value)

    def value_and_gradient(self, loss: Loss, leaves: Sequence[np.ndarray], constants: Sequence[np.ndarray]) -> Thunk:
        """A call of no arguments that computes the loss and all gradients by the leaves."""
        variables = [self.leaf(a) for a in leaves]
        fixed = [self.constant(a) for a in constants]

        def run() -> list[Any]:
            for v in variables:
                self.forget(v)
            value = loss(self, *variables, *fixed)
            value.backward()
            return [value, *(v.grad for v in variables)]

        return self.prepared(run)


class Torchlike(Library):
    """A library with PyTorch's names."""

    def gradients(self, value: Any, inputs: Sequence[Any], create_graph: bool) -> Sequence[Any]:
        return self.namespace.autograd.grad(value, inputs, create_graph=create_graph)

    def leaf(self, array: np.ndarray) -> Any:
        return self.namespace.tensor(array, requires_grad=True)

    def constant(self, array: np.ndarray) -> Any:
        return self.namespace.tensor(array)

    def shared(self, array: np.ndarray) -> Any:
        return self.namespace.from_numpy(array)


class Lucid(Torchlike):
    name = module = "lucid"

    def __init__(self) -> None:
        import lucid

        self.namespace, self.func = lucid, lucid.func
        self.version = "this checkout"


class Torch(Torchlike):
    """PyTorch in eager mode on two threads."""

    name = module = "torch"

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(2)
        self.namespace, self.func = torch, torch.func
        self.version = torch.__version__

    def array(self, value: Any) -> np.ndarray:
        return value.detach().numpy()


class Compiled(Lucid):
    """Lucid with what is measured compiled as a whole: forward, backward and the optimizer's step."""

    name = "lucid.compile"

    def prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.namespace.compile(function)


class TorchCompiled(Torch):
    """The same with PyTorch's compiler, which takes about a minute for a model."""

    name = "torch.compile"

    def prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.namespace.compile(function)


class MyGrad(Library):
    name = module = "mygrad"

    def __init__(self) -> None:
        import mygrad
        from mygrad.nnet.activations import relu

        self.mygrad = mygrad
        self.version = mygrad.__version__
        self.relu = relu  # type: ignore[method-assign]

    def leaf(self, array: np.ndarray) -> Any:
        return self.mygrad.tensor(array)

    def constant(self, array: np.ndarray) -> Any:
        return self.mygrad.tensor(array, constant=True)

    def forget(self, leaf: Any) -> None:
        """Nothing to do: MyGrad drops a gradient when its tensor is used again."""


class Autograd(Library):
    """HIPS autograd, which transforms functions of arrays and has no leaves."""

    name = module = "autograd"

    def __init__(self) -> None:
        import importlib.metadata

        import autograd
        import autograd.numpy
        from autograd.core import VJPNode
        from autograd.tracer import new_box

        self.autograd = autograd
        self.numpy = autograd.numpy
        self.version = importlib.metadata.version("autograd")
        self._root, self._box = VJPNode.new_root, new_box

    def leaf(self, array: np.ndarray) -> Any:
        """The box that autograd itself makes around the argument of a function it differentiates."""
        return self._box(array, 0, self._root())

    def constant(self, array: np.ndarray) -> Any:
        return array

    def relu(self, x: Any) -> Any:
        return self.numpy.maximum(x, 0)

    def array(self, value: Any) -> np.ndarray:
        return np.asarray(getattr(value, "_value", value))

    def value_and_gradient(self, loss: Loss, leaves: Sequence[np.ndarray], constants: Sequence[np.ndarray]) -> Thunk:
        places = list(range(len(leaves)))
        both = self.autograd.value_and_grad(lambda *leaves: loss(self, *leaves, *constants), places)

        def run() -> list[Any]:
            value, gradients = both(*leaves)
            return [value, *gradients]

        return run


LIBRARIES: dict[str, type[Library]] = {c.name: c for c in (Lucid, Compiled, Torch, TorchCompiled, Autograd, MyGrad)}
USUAL = [name for name in LIBRARIES if name != TorchCompiled.name]  # where nobody says which


def present(wanted: Sequence[str]) -> tuple[list[Library], list[str]]:
    """The libraries that can be imported, and a note on each that cannot."""
    found: list[Library] = []
    missing: list[str] = []
    for name in wanted:
        try:
            found.append(LIBRARIES[name]())
        except ImportError as error:
            missing.append(f"{name} left out: {error}")
    return found, missing
