"""Losses: means over the batch."""

from typing import Any

import numpy as np

import lucid
from sorix.tensor import Tensor, operation

_LOG_SOFTMAX = operation("log_softmax", lambda x: lucid.log_softmax(x, 1))
_LOGITS = operation("bce", lucid.nn.functional.binary_cross_entropy_with_logits)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


class MSELoss:
    """The mean of squared differences.

    >>> import sorix
    >>> sorix.nn.MSELoss()(sorix.tensor([1.0, 2.0]), sorix.tensor([0.0, 0.0]))
    tensor(2.5)
    """

    def __call__(self, y_pred: Any, y_real: Any) -> Any:
        return ((y_pred - y_real) ** 2).mean()


class BCEWithLogitsLoss:
    """The mean of max(x, 0) - x·y + log(1 + exp(-|x|)); its gradient is (σ(x) - y) divided by the size of dim 0.

    >>> import sorix
    >>> sorix.nn.BCEWithLogitsLoss()(sorix.tensor([[0.0]]), sorix.tensor([[1.0]]))
    tensor(0.6931472)
    """

    def __call__(self, y_pred: Any, y_real: Any) -> Any:
        target = _tensor(y_real).data.astype(y_pred.data.dtype)
        loss = _LOGITS(y_pred, Tensor(np.broadcast_to(target, y_pred.data.shape)))
        rows = y_pred.data.shape[0] if y_pred.ndim else 1
        columns = y_pred.data.size / rows
        # Where rows have several elements, Sorix's gradient is not that of the mean, but of the sum of a row.
        return loss if columns == 1 else loss * columns - loss.detach() * (columns - 1)


class CrossEntropyLoss:
    """The mean of -log(p + 1e-9) for the probabilities p = softmax(x) of the right classes; weights are of classes.

    Targets are the numbers of classes, or with `one_hot` rows of probabilities. The gradient is (p - target) / N.

    >>> import sorix
    >>> logits = sorix.tensor([[2.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> loss = sorix.nn.CrossEntropyLoss(one_hot=True)(logits, sorix.tensor([[1.0, 0.0], [1.0, 0.0]]))
    >>> loss.backward()
    >>> round(loss.item(), 4), logits.grad.data.round(4)
    (1.1269, array([[-0.0596,  0.0596],
           [-0.4404,  0.4404]], dtype=float32))
    """

    def __init__(self, weight: Any = None, one_hot: bool = False) -> None:
        self.weight, self.one_hot = weight, one_hot

    def __call__(self, y_pred: Any, y_real: Any) -> Any:
        logs = _LOG_SOFTMAX(y_pred)
        kind = y_pred.data.dtype if y_pred.data.dtype.kind == "f" else np.float64
        target = _tensor(y_real).data
        if not self.one_hot:
            target = np.eye(y_pred.shape[1], dtype=kind)[target.astype(np.int64).reshape(-1)]
        target = target.astype(kind)
        weights = np.ones((len(target), 1), kind)
        if self.weight is not None:
            weights = (target * _tensor(self.weight).data.reshape(1, -1)).sum(1, keepdims=True).astype(kind)
        shares = target * (weights / weights.sum())
        loss = -(logs * shares).sum()
        # The value has log(p + 1e-9), the gradient that of log p.
        floor = shares * (np.log(np.exp(logs.data) + 1e-9) - logs.data)
        return loss - floor.sum().astype(kind)


__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "MSELoss"]
