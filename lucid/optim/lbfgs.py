"""L-BFGS: Newton's method with an inverse Hessian built from the last few steps."""

from typing import Any

import numpy as np

from lucid.core.levels import capturing
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.optim.layout import flat_reals, kept, like, working_type
from lucid.optim.line_search import Point, StrongWolfe, largest_component
from lucid.optim.optimizer import Closure, Group, Optimizer, Params, check_range, options


class LBFGS(Optimizer):
    """L-BFGS, a quasi-Newton method for all parameters at once.

    `step` needs a closure that clears the gradients, computes the loss, calls backward and returns the loss: one step
    runs up to `max_iter` iterations, and evaluates the closure up to `max_eval` times (by default 1.25 · max_iter).
    With `line_search_fn="strong_wolfe"` the length of each iteration's step is searched for, otherwise it is `lr`.

    >>> import lucid
    >>> x = lucid.tensor([-1.0, 2.0], requires_grad=True)
    >>> optimizer = lucid.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=50)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> first_loss = optimizer.step(closure)
    >>> bool((abs(x - 1) < 1e-3).all())
    True
    """

    needs_whole_parameters = True

    def __init__(
        self,
        params: Params,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options(locals()))

    def _check(self, group: Group) -> None:
        check_range(self, group, "lr")
        if self.param_groups:
            raise ValueError("LBFGS takes one group of parameters: it treats all of them as one vector")
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', not {group['line_search_fn']!r}")

    def step(self, closure: Closure | None = None) -> Any:
        """Run up to `max_iter` iterations; returns the loss at the beginning."""
        if capturing():
            raise NotImplementedError(
                "LBFGS cannot be compiled: how many iterations it takes, and how far each goes, depends on values of the "
                "loss. Compile the closure instead, and call step as it is."
            )
        if closure is None:
            raise TypeError("LBFGS.step needs a closure that computes the loss and its gradients, and returns the loss")
        return _Descent(self, self.param_groups[0], closure).run()

    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _position(self) -> Any:
        """All parameters in one array."""
        return _joined([p._concrete("LBFGS.step") for p in self._params()])

    def _gradient(self) -> Any:
        """All gradients in one array; a missing one counts as 0."""
        arrays = [
            np.zeros_like(p._concrete("LBFGS.step")) if (g := p.grad) is None else g._concrete("LBFGS.step")
            for p in self._params()
        ]
        return _joined(arrays)

    def _move_to(self, position: Any) -> None:
        start = 0
        for p in self._params():
            p._raise_if_read_only("LBFGS.step")
            array = p._array
            stop = start + flat_reals(array).size
            array[...] = like(position[start:stop], array)
            start = stop
        self._note_writes([storage_of(p) for p in self._params()])


class _Descent:
    """One call of `LBFGS.step`. Between calls, what it has learned stands in the optimizer's state."""

    def __init__(self, optimizer: LBFGS, group: Group, closure: Closure) -> None:
        self.optimizer = optimizer
        self.group = group
        self.closure = closure
        self.state = optimizer.state[optimizer._params()[0]]
        self.state.setdefault("func_evals", 0)
        self.state.setdefault("n_iter", 0)
        self.evaluations = 0

    def evaluate(self) -> Any:
        self.evaluations += 1
        self.state["func_evals"] += 1
        return self.optimizer._loss(self.closure)

    def run(self) -> Any:
        first = self.evaluate()
        loss, gradient = float(first), self.optimizer._gradient()
        if largest_component(gradient) <= self.group["tolerance_grad"]:
            return first
        for iteration in range(1, self.group["max_iter"] + 1):
            self.state["n_iter"] += 1
            direction = self._direction(gradient)
            step = float(self.group["lr"])
            if self.state["n_iter"] == 1:
                step *= min(1.0, 1.0 / float(np.abs(gradient).sum()))
            self._remember(d=direction, t=step, prev_flat_grad=gradient.copy(), prev_loss=loss)
            slope = float(gradient @ direction)
            if slope > -self.group["tolerance_change"]:
                break
            before = loss
            loss, gradient, step = self._take(Point(0.0, loss, gradient, slope), direction, step, iteration)
            self.state["t"] = step
            if self._finished(gradient, direction * step, loss - before):
                break
        return first

    def _finished(self, gradient: Any, change: Any, gain: float) -> bool:
        tolerance = self.group["tolerance_change"]
        return (
            self.evaluations >= self.group["max_eval"]
            or largest_component(gradient) <= self.group["tolerance_grad"]
            or largest_component(change) <= tolerance
            or abs(gain) < tolerance
        )

    def _take(self, start: Point, direction: Any, step: float, iteration: int) -> tuple[float, Any, float]:
        """Go along the direction; the loss and gradient at the new place, and the step that led there."""
        origin = self.optimizer._position()

        def at(length: float) -> Point:
            self.optimizer._move_to(origin + length * direction)
            loss = float(self.evaluate())
            gradient = self.optimizer._gradient()
            return Point(length, loss, gradient, float(gradient @ direction))

        if self.group["line_search_fn"] is not None:
            search = StrongWolfe(at, start, largest_component(direction), self.group["tolerance_change"])
            found = search.search(step)
            self.optimizer._move_to(origin + found.step * direction)
            return found.loss, found.gradient, found.step
        if iteration < self.group["max_iter"]:
            found = at(step)
            return found.loss, found.gradient, step
        # The last iteration's place is not evaluated: the next call of step begins with that.
        self.optimizer._move_to(origin + step * direction)
        return start.loss, start.gradient, step

    def _direction(self, gradient: Any) -> Any:
        """-H·g, by the two loops over the history of steps and changes of the gradient."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        self._learn(gradient)
        changes = [t._array for t in state["old_dirs"]]
        steps = [t._array for t in state["old_stps"]]
        q = -gradient
        weights = []
        for y, s, rho in zip(reversed(changes), reversed(steps), reversed(state["ro"]), strict=True):
            weights.append(float(s @ q) * rho)
            q -= weights[-1] * y
        q *= state["H_diag"]
        for y, s, rho, weight in zip(changes, steps, state["ro"], reversed(weights), strict=True):
            q += (weight - float(y @ q) * rho) * s
        return q

    def _learn(self, gradient: Any) -> None:
        """Add the last step to the history, if the loss curves upwards along it."""
        state = self.state
        change = gradient - state["prev_flat_grad"]._array
        taken = state["d"]._array * float(state["t"])
        curvature = float(change @ taken)
        if curvature <= 1e-10:
            return
        if len(state["ro"]) == self.group["history_size"]:
            for history in ("old_dirs", "old_stps", "ro"):
                state[history].pop(0)
        first = self.optimizer._params()[0]
        state["old_dirs"].append(kept(first, change))
        state["old_stps"].append(kept(first, taken))
        state["ro"].append(1.0 / curvature)
        state["H_diag"] = curvature / float(change @ change)

    def _remember(self, **values: Any) -> None:
        first = self.optimizer._params()[0]
        for name, value in values.items():
            self.state[name] = kept(first, value) if isinstance(value, np.ndarray) else value


def _joined(arrays: list[Any]) -> Any:
    """Arrays in one vector of real numbers, of the widest type among them."""
    return np.concatenate([flat_reals(a).astype(working_type(a), copy=False) for a in arrays])


__all__ = ["LBFGS"]
