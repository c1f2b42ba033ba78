"""Bayesian regression: draws of the parameters of a curve given some points, by Hamiltonian Monte Carlo."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from extras import BLUE, GREY, ORANGE, figure, save
from options import parsed
from progress import progress

import lucid
from lucid.distributions import Normal
from lucid.func import grad, vmap

POINTS, NOISE = 30, 0.15
TRUE = (1.0, 2.5, 0.4, math.log(NOISE))  # amplitude, frequency, phase, logarithm of the noise
NAMES = ("amplitude", "frequency", "phase", "log noise")
Density = Callable[[lucid.Tensor], lucid.Tensor]


def curve(parameters: lucid.Tensor, x: lucid.Tensor) -> lucid.Tensor:
    amplitude, frequency, phase, _ = parameters
    return amplitude * (frequency * x + phase).sin()


def posterior(x: lucid.Tensor, y: lucid.Tensor) -> Density:
    """The logarithm of the density of the parameters given the points, but for a constant."""
    prior = Normal(lucid.tensor([1.0, 2.5, 0.0, -1.5]), lucid.tensor([1.0, 0.5, 1.0, 1.0]))

    def log_density(parameters: lucid.Tensor) -> lucid.Tensor:
        likelihood = Normal(curve(parameters, x), parameters[3].exp()).log_prob(y)
        return prior.log_prob(parameters).sum() + likelihood.sum()

    return log_density


@dataclass
class Draws:
    """Draws of shape (steps, chains, parameters) after the warm-up, and the share of proposals that were accepted."""

    draws: np.ndarray
    accepted: float

    def convergence(self) -> np.ndarray:
        """R-hat of each parameter: 1 if every chain, and each half of it, says the same."""
        halves = np.concatenate(np.split(self.draws[: len(self.draws) // 2 * 2], 2), axis=1)
        steps = len(halves)
        within, between = halves.var(0, ddof=1).mean(0), halves.mean(0).var(0, ddof=1)
        return np.sqrt((steps - 1) / steps + between / within)


def sample(log_density: Density, start: lucid.Tensor, warmup: int, steps: int, leaps: int = 16) -> Draws:
    """Chains side by side. Each step draws a momentum and follows the motion for a while, by leapfrog with step `size`.

    During the warm-up the size is adapted such that four of five proposals are accepted.
    """
    energy, force = vmap(log_density), vmap(grad(log_density))
    place, size = start, 0.02
    kept, accepted = [], []
    for step in range(1, warmup + steps + 1):
        momentum = lucid.randn(place.shape)
        proposed, moving = leapfrog(force, place, momentum, size, leaps)
        change = energy(proposed) - energy(place) + ((momentum**2).sum(1) - (moving**2).sum(1)) / 2
        chance = lucid.nan_to_num(change, nan=-math.inf).clamp(max=0.0).exp()
        taken = lucid.rand(len(place)) < chance
        place = lucid.where(taken.unsqueeze(1), proposed, place)
        mean = chance.mean().item()
        if step <= warmup:
            size *= math.exp((mean - 0.8) / step**0.4)
        else:
            kept.append(place.numpy().copy())
            accepted.append(taken.float().mean().item())
        progress(step, warmup + steps, f"step size {size:.4f}, chance of acceptance {mean:.0%}")
    return Draws(np.array(kept), float(np.mean(accepted)))


def leapfrog(
    force: Density, place: lucid.Tensor, momentum: lucid.Tensor, size: float, leaps: int
) -> tuple[lucid.Tensor, lucid.Tensor]:
    momentum = momentum + size / 2 * force(place)
    for leap in range(leaps):
        place = place + size * momentum
        momentum = momentum + (size if leap < leaps - 1 else size / 2) * force(place)
    return place, momentum


def draw(x: lucid.Tensor, y: lucid.Tensor, found: Draws, folder: Path) -> Path:
    made = figure(12, 4.6)
    left, right = made.subfigures(1, 2, width_ratios=[1.2, 1])
    flat = found.draws.reshape(-1, 4)
    curves = left.subplots()
    wide = lucid.linspace(-1.0, 4.0, 200)
    some = lucid.tensor(flat[:: max(1, len(flat) // 500)])
    lines = vmap(lambda p: curve(p, wide))(some).numpy()
    low, middle, high = np.quantile(lines, [0.05, 0.5, 0.95], axis=0)
    curves.fill_between(wide.numpy(), low, high, color=BLUE, alpha=0.25, label="90 % of curves")
    curves.plot(wide.numpy(), middle, color=BLUE, label="median")
    curves.plot(wide.numpy(), curve(lucid.tensor(TRUE), wide).numpy(), "--", color=GREY, label="true curve")
    curves.plot(x.numpy(), y.numpy(), "o", color=ORANGE, markersize=4, label="points")
    curves.set(title="Curves drawn from the posterior")
    curves.legend(loc="lower left")
    for k, axes in enumerate(right.subplots(2, 2).ravel()):
        axes.hist(flat[:, k], bins=40, color=BLUE, alpha=0.6, density=True)
        axes.axvline(TRUE[k], color=ORANGE)
        axes.set(title=NAMES[k], yticks=[])
    return save(made, folder, "bayes")


def main(argv: Sequence[str] | None = None) -> Draws:
    options = parsed(__doc__, argv)
    x = lucid.rand(POINTS) * 3
    y = curve(lucid.tensor(TRUE), x) + NOISE * lucid.randn(POINTS)
    chains, warmup, steps = (4, 80, 80) if options.quick else (8, 300, 700)
    start = lucid.tensor(TRUE) + 0.1 * lucid.randn(chains, 4)
    found = sample(posterior(x, y), start, warmup, steps)
    print(f"\n{found.draws.shape[0]} draws from each of {chains} chains, {found.accepted:.0%} accepted")
    flat, close = found.draws.reshape(-1, 4), found.convergence()
    for k, name in enumerate(NAMES):
        print(f"{name:>10}: {flat[:, k].mean():.3f} ± {flat[:, k].std():.3f}, true {TRUE[k]:.3f}, R-hat {close[k]:.3f}")
    draw(x, y, found, options.output)
    return found


if __name__ == "__main__":
    main()
