"""A network that solves a differential equation: the damped oscillator u'' + 2 d u' + w² u = 0, u(0) = 1, u'(0) = 0.

No data: the network is a function of time, its derivatives come from `grad` of `grad`, and it learns to make the
equation hold everywhere. The search for that uses derivatives of those derivatives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from extras import BLUE, GREEN, GREY, ORANGE, figure, save
from options import parsed
from progress import progress

import lucid
from lucid import nn
from lucid.func import functional_call, grad_and_value, vmap

DAMPING, FREQUENCY, DURATION = 0.3, 2.0, 6.0

Parameters = dict[str, lucid.Tensor]


def exact(t: np.ndarray) -> np.ndarray:
    """The solution in closed form."""
    w = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return np.exp(-DAMPING * t) * (np.cos(w * t) + DAMPING / w * np.sin(w * t))


class Oscillator:
    """A network as a function of its parameters and of time, and how far it is from solving the equation."""

    def __init__(self, width: int) -> None:
        self.network = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        ).double()

    def position(self, parameters: Parameters, t: lucid.Tensor) -> lucid.Tensor:
        """1 + tanh² t N(t): whatever the network N says, it starts at 1 and at rest."""
        scaled = (2 * t / DURATION - 1).reshape(1)
        return 1 + t.tanh() ** 2 * functional_call(self.network, parameters, scaled)[0]

    def residual(self, parameters: Parameters, t: lucid.Tensor) -> lucid.Tensor:
        """What the equation leaves at one time, by derivatives of derivatives."""
        velocity = grad_and_value(self.position, argnums=1)  # and the position beside it
        a, (v, u) = grad_and_value(velocity, argnums=1, has_aux=True)(parameters, t)
        return a + 2 * DAMPING * v + FREQUENCY**2 * u

    def loss(self, parameters: Parameters, times: lucid.Tensor) -> lucid.Tensor:
        return vmap(self.residual, in_dims=(None, 0))(parameters, times).square().mean()


@dataclass
class Result:
    """The loss of each iteration, and the largest error of the solution over all times."""

    losses: list[float]
    largest_error: float
    picture: Path


def solve(oscillator: Oscillator, points: int, iterations: int) -> tuple[Parameters, list[float]]:
    """The quasi-Newton method of SciPy, which gets exact gradients."""
    times = lucid.linspace(0, DURATION, points, dtype=lucid.float64)
    start = {name: p.detach() for name, p in oscillator.network.named_parameters()}
    losses = [oscillator.loss(start, times).item()]

    def report(state: Any) -> None:
        losses.append(state.fun)
        progress(len(losses) - 1, iterations, f"loss {state.fun:.1e}")

    found = lucid.optim.minimize(
        oscillator.loss, start, (times,), "L-BFGS-B",
        callback=report, maxiter=iterations, maxfun=2 * iterations, maxcor=50, ftol=0, gtol=1e-9,
    )  # fmt: skip
    return found.x, losses


def draw(t: np.ndarray, u: np.ndarray, losses: list[float], folder: Path) -> Path:
    made = figure(11, 4.2)
    left, right = made.subfigures(1, 2, width_ratios=[1.4, 1])
    upper, lower = left.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    upper.plot(t, exact(t), color=GREY, lw=5, alpha=0.4, label="exact")
    upper.plot(t, u, color=BLUE, lw=1.5, label="network")
    upper.set(ylabel="u(t)", title="u'' + 2 d u' + w² u = 0,  u(0) = 1,  u'(0) = 0")
    upper.legend()
    lower.semilogy(t[1:], np.abs(u - exact(t))[1:], color=ORANGE)
    lower.set(xlabel="t", ylabel="error")
    curve = right.subplots()
    curve.semilogy(losses, color=GREEN)
    curve.set(xlabel="iteration", ylabel="mean square of what the equation leaves", title="Learning")
    for axes in (upper, lower, curve):
        axes.grid(alpha=0.3)
    return save(made, folder, "pinn")


def main(argv: Sequence[str] | None = None) -> Result:
    options = parsed(__doc__, argv)
    oscillator = Oscillator(width=16 if options.quick else 32)
    size = {"points": 40, "iterations": 300} if options.quick else {"points": 100, "iterations": 1000}
    found, losses = solve(oscillator, **size)
    t = np.linspace(0, DURATION, 601)
    with lucid.no_grad():
        u = vmap(oscillator.position, in_dims=(None, 0))(found, lucid.tensor(t)).numpy()
    largest = float(np.abs(u - exact(t)).max())
    print(f"loss {losses[0]:.1e} before, {losses[-1]:.1e} after {len(losses) - 1} iterations")
    print(f"largest error of the solution: {largest:.1e}")
    return Result(losses, largest, draw(t, u, losses, options.output))


if __name__ == "__main__":
    main()
