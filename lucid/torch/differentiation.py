"""`torch.autograd`: Lucid's tape with the arguments and results of PyTorch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import lucid
from lucid.autograd import detect_anomaly
from lucid.core import modes
from lucid.core.fields import count_marking
from lucid.core.node import accumulator
from lucid.core.tensor import of_class


class inference_mode(lucid.inference_mode):
    """As `no_grad`, and tensors that are made inside say so: outside they are not written, and not saved for gradients.

    >>> import lucid.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> with torch.inference_mode():
    ...     x = torch.ones(2)
    >>> x.is_inference(), x.clone().is_inference(), (x + w).requires_grad
    (True, False, True)
    >>> x * w
    Traceback (most recent call last):
    RuntimeError: what a gradient needs is a tensor that was made in inference mode; clone() it first, for an ordinary one
    """

    _on = modes.MARKING

    def _enter(self) -> Any:
        count_marking(1)
        return super()._enter()

    def _leave(self, before: Any) -> None:
        count_marking(-1)
        super()._leave(before)


class _Edge(NamedTuple):
    node: Any
    output_nr: int


class GradientEdge(_Edge):
    """Where a gradient arrives: an operation, and which of its results. It takes the place of a tensor in `grad`."""

    stand_in: lucid.Tensor  # a tensor at that place of the graph, which holds no memory of the other one


def get_gradient_edge(tensor: lucid.Tensor) -> GradientEdge:
    """The edge of the graph at which the gradient of a tensor arrives; the tensor itself may go.

    >>> import lucid.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x * 2
    >>> edge = torch.autograd.graph.get_gradient_edge(y)
    >>> torch.autograd.grad((y * 3).sum(), edge)
    (tensor([3., 3.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the tensor does not require grad, so no gradient arrives at it")
    if tensor.is_leaf:
        edge = GradientEdge(accumulator(tensor), 0)
        edge.stand_in = tensor
        return edge
    edge = GradientEdge(tensor.grad_fn, tensor.output_nr)
    edge.stand_in = of_class((tensor,), lucid.zeros((), dtype=tensor.dtype).expand(tensor.shape).detach())
    edge.stand_in._node, edge.stand_in._requires_grad = tensor._node, True
    return edge


def _tensors(given: Any) -> list[lucid.Tensor]:
    """Tensors, and those that stand for edges."""
    listed = [given] if isinstance(given, (lucid.Tensor, GradientEdge)) else list(given)
    return [t.stand_in if isinstance(t, GradientEdge) else t for t in listed]


_Tensors = lucid.Tensor | GradientEdge | Sequence[lucid.Tensor | GradientEdge]


def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of `outputs` by each of `inputs`, always as a tuple; every `.grad` is left alone.

    >>> import lucid.torch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    wanted = _tensors(inputs)
    found = lucid.autograd.grad(
        outputs if isinstance(outputs, lucid.Tensor) else _tensors(outputs),
        wanted,
        grad_outputs,
        retain_graph,
        create_graph,
        allow_unused,
        is_grads_batched,
        materialize_grads,
        only_inputs=only_inputs,
    )
    return tuple(None if g is None else of_class((x,), g) for g, x in zip(found, wanted, strict=True))


def Variable(data: lucid.Tensor, requires_grad: bool = False, volatile: bool = False) -> lucid.Tensor:
    """A tensor over the same memory, as programs from before PyTorch 0.4 write it.

    >>> import lucid.torch as torch
    >>> torch.autograd.Variable(torch.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
    return data.requires_grad_() if requires_grad and data.is_leaf else data


class set_detect_anomaly:
    """`detect_anomaly` switched on or off: at once, and in `with` until its end.

    >>> import lucid.torch as torch
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     pass
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._context = detect_anomaly(mode and check_nan)
        self._context.__enter__()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


__all__ = ["Variable", "grad", "set_detect_anomaly"]
