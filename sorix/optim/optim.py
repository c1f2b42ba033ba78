"""Optimizers: the rules of `lucid.optim` with Sorix's options, statistics and gradients of zeros."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

import numpy as np

import lucid
import lucid.optim as _lucid
from sorix.tensor import Tensor

Group = dict[str, Any]


class Statistics(MutableMapping[str, Any]):
    """What an optimizer keeps for a group: flat arrays over all of its parameters, and the number of steps.

    They are read from the state of each parameter; what a program puts here itself is kept beside it.
    """

    def __init__(self, optimizer: "Optimizer", group: Group) -> None:
        self._optimizer, self._group, self._own = optimizer, group, dict[str, Any]()

    def _entries(self) -> list[Any]:
        return [self._optimizer.state.get(p) for p in self._group["params"]]

    def __getitem__(self, name: str) -> Any:
        slot = self._optimizer.statistics.get(name)
        entries = self._entries()
        if slot is None or not all(entries) or slot not in entries[0]:
            return self._own[name]
        if slot == "step":
            return int(entries[0][slot])
        return np.concatenate([np.asarray(entry[slot]).ravel() for entry in entries])

    def __setitem__(self, name: str, value: Any) -> None:
        slot = self._optimizer.statistics.get(name)
        if slot is None:
            self._own[name] = value
            return
        begin = 0
        for p in self._group["params"]:
            count = p.data.size
            held = value if slot == "step" else np.asarray(value)[begin : begin + count].reshape(p.data.shape)
            kind = np.float32 if slot == "step" else p.data.dtype
            self._optimizer.state[p][slot] = lucid.tensor(np.array(held, kind))
            begin += count
        self._optimizer._forget_layout()  # type: ignore[attr-defined]  # of those with statistics

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        entries = self._entries()
        known = entries[0] if all(entries) else {}
        return iter([*self._own, *[name for name, slot in self._optimizer.statistics.items() if slot in known]])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class Optimizer(_lucid.Optimizer):
    """The base of optimizers: groups of parameters, each of which has a gradient from the start, of zeros.

    >>> import sorix
    >>> class Descent(sorix.optim.Optimizer):
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.data = p.data - group["lr"] * p.grad.data
    >>> x = sorix.tensor([1.0], requires_grad=True)
    >>> optimizer = Descent([x], lr=0.5)
    >>> x.grad
    tensor([0.])
    """

    statistics: ClassVar[dict[str, str]] = {}  # Sorix's names of them, and Lucid's

    def __init__(self, params: Any, lr: float = 1e-3, weight_decay: float = 0.0, **options: Any) -> None:
        super().__init__(_listed(params), {"lr": lr, "weight_decay": weight_decay, **options})

    def _check(self, group: Group) -> None:
        """Any option is taken."""

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group["state"] = Statistics(self, group)
        for p in group["params"]:
            _give_gradient(p)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                p._grad = None
                _give_gradient(p)

    def state_dict(self) -> dict[str, Any]:
        """The statistics of each group, and its options."""
        return {
            "state": [dict(group["state"]) for group in self.param_groups],
            "param_groups": [
                {k: v for k, v in group.items() if k not in ("params", "state")} for group in self.param_groups
            ],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over statistics and options."""
        for group, state, options in zip(
            self.param_groups, state_dict["state"], state_dict["param_groups"], strict=True
        ):
            group.update(options)
            group["state"].update(state)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)


def _listed(params: Any) -> list[Any]:
    """Parameters or groups in a list."""
    given = [params] if isinstance(params, Tensor) else list(params)
    if not given:
        raise ValueError("optimizer got an empty parameter list")
    return given


def _give_gradient(p: Any) -> None:
    if p.grad is None:
        p._grad = Tensor(np.zeros_like(p.data))
    elif not isinstance(p.grad, Tensor):
        p.grad = np.asarray(p.grad)


class SGD(Optimizer, _lucid.SGD):
    """Gradient descent, with momentum if wanted: v ← momentum·v + g, p ← p - lr·v.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> optimizer = sorix.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> x.grad = [2.0]
    >>> optimizer.step()
    >>> x, optimizer.param_groups[0]["state"]
    (tensor([9.8], requires_grad=True), {'v_buffer': array([2.], dtype=float32)})
    """

    statistics: ClassVar[dict[str, str]] = {"v_buffer": "momentum_buffer"}

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        _lucid.SGD.__init__(self, _listed(params), lr, momentum, weight_decay=weight_decay)


class SGDMomentum(SGD):
    """Gradient descent with momentum."""

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.9, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr, momentum, weight_decay)


class RMSprop(Optimizer, _lucid.RMSprop):
    """Steps divided by the root of a running mean of squares, which `alpha` (or `decay`) controls.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> optimizer = sorix.optim.RMSprop([x], lr=0.1, decay=0.9)
    >>> x.grad = [2.0]
    >>> optimizer.step()
    >>> x
    tensor([9.683772], requires_grad=True)
    """

    statistics: ClassVar[dict[str, str]] = {"v_buffer": "square_avg"}

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay: float | None = None,
    ) -> None:
        kept = alpha if decay is None else decay
        _lucid.RMSprop.__init__(self, _listed(params), lr, kept, eps, weight_decay)


class Adam(Optimizer, _lucid.Adam):
    """Adam, p ← p - lr·√(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + eps): `eps` is added before the correction of v.

    >>> import sorix
    >>> x = sorix.tensor([10.0], requires_grad=True)
    >>> optimizer = sorix.optim.Adam([x], lr=0.1)
    >>> x.grad = [2.0]
    >>> optimizer.step()
    >>> x, optimizer.param_groups[0]["state"]["t"]
    (tensor([9.9], requires_grad=True), 1)
    """

    statistics: ClassVar[dict[str, str]] = {"t": "step", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        _lucid.Adam.__init__(self, _listed(params), lr, betas, eps, weight_decay)

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        *others, _, rate = super()._coefficients(group, fresh, *counts)
        return *others, group["eps"], rate


class ScipyBridge:
    """Parameters as one array, and a loss with its gradient as a function of it, for `scipy.optimize.minimize`.

    >>> import sorix
    >>> x = sorix.tensor([3.0], dtype=sorix.float64)
    >>> bridge = sorix.optim.ScipyBridge([x], lambda: (x * x).sum())
    >>> bridge.objective(bridge.get_x())
    (9.0, array([6.]))
    """

    def __init__(self, parameters: Any, loss_fn: Callable[[], Any]) -> None:
        self.parameters, self.loss_fn = list(parameters), loss_fn
        for p in self.parameters:
            p.requires_grad = True

    def get_x(self) -> Any:
        """All parameters in one array of 64 bits."""
        return np.concatenate([p.data.ravel() for p in self.parameters]).astype(np.float64)

    def set_x(self, array: Any) -> None:
        """Give the parameters the elements of an array."""
        begin = 0
        for p in self.parameters:
            part = np.asarray(array)[begin : begin + p.data.size]
            p.data = part.reshape(p.data.shape).astype(p.data.dtype)
            begin += p.data.size

    def objective(self, array: Any) -> tuple[float, Any]:
        """The loss at these parameters, and its gradient."""
        self.set_x(array)
        for p in self.parameters:
            p.grad = None
        loss = self.loss_fn()
        loss.backward()
        parts = [np.zeros(p.data.size) if p.grad is None else p.grad.data.ravel() for p in self.parameters]
        return float(loss.item()), np.concatenate(parts).astype(np.float64)


__all__ = ["SGD", "Adam", "Optimizer", "RMSprop", "SGDMomentum", "ScipyBridge"]
