"""Learning to learn: start values from which a network fits a new sine curve after one step on ten points.

The loss of a task is what is left after a gradient step on it, so its gradient contains second derivatives:
`grad` inside `grad`, with `vmap` over the tasks. For comparison the same network is trained on all tasks at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from extras import BLUE, GREY, ORANGE, PURPLE, figure, save
from options import parsed
from progress import progress

import lucid
from lucid import nn
from lucid.func import functional_call, grad, vmap

SHOTS, TASKS, RATE, ADAPTATION_STEPS = 10, 25, 0.03, 10

Parameters = dict[str, lucid.Tensor]


class Task(NamedTuple):
    """Points of a sine curve to adapt to, and others to be tested on; with vmap, of many curves."""

    x: lucid.Tensor
    y: lucid.Tensor
    x_new: lucid.Tensor
    y_new: lucid.Tensor


def tasks(count: int, rng: np.random.Generator, new: int = SHOTS) -> Task:
    """Sine curves of random amplitude and phase."""
    amplitude, phase = rng.uniform(0.5, 5, (count, 1, 1)), rng.uniform(0, np.pi, (count, 1, 1))
    x = rng.uniform(-5, 5, (count, SHOTS + new, 1))
    y = amplitude * np.sin(x - phase)
    parts = (part for values in (x, y) for part in np.split(values, [SHOTS], axis=1))
    x_old, x_new, y_old, y_new = (lucid.tensor(p, dtype=lucid.float32) for p in parts)
    return Task(x_old, y_old, x_new, y_new)


def new_network() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))


class Learner:
    """A network as a function of its parameters, and how it adapts them to a task."""

    def __init__(self) -> None:
        self.network = new_network()

    def loss(self, parameters: Parameters, x: lucid.Tensor, y: lucid.Tensor) -> lucid.Tensor:
        return (functional_call(self.network, parameters, x) - y).square().mean()

    def adapted(self, parameters: Parameters, task: Task, steps: int) -> Parameters:
        """The parameters after some gradient steps on the points of a task."""
        for _ in range(steps):
            gradient = grad(self.loss)(parameters, task.x, task.y)
            parameters = {name: p - RATE * gradient[name] for name, p in parameters.items()}
        return parameters

    def loss_after(self, steps: int) -> Callable[[Parameters, Task], lucid.Tensor]:
        """The mean loss on new points of many tasks, each after some steps of its own."""

        def one(parameters: Parameters, task: Task) -> lucid.Tensor:
            return self.loss(self.adapted(parameters, task, steps), task.x_new, task.y_new)

        return lambda parameters, many: vmap(one, in_dims=(None, 0))(parameters, many).mean()

    def train(self, inner_steps: int, steps: int, rng: np.random.Generator) -> None:
        """Make the loss after `inner_steps` small; through them, the optimizer sees second derivatives."""
        objective = self.loss_after(inner_steps)
        optimizer = lucid.optim.Adam(self.network.parameters(), lr=2e-3)
        schedule = lucid.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        recent = []
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss = objective(dict(self.network.named_parameters()), tasks(TASKS, rng))
            loss.backward()
            optimizer.step()
            schedule.step()
            recent = [*recent[-49:], loss.item()]
            progress(step, steps, f"loss {np.mean(recent):.2f}")

    def losses_by_step(self, many: Task) -> list[float]:
        """The loss on new points of tasks never seen before, after 0, 1, 2, ... steps."""
        parameters = self.state()
        return [self.loss_after(k)(parameters, many).item() for k in range(ADAPTATION_STEPS + 1)]

    def state(self) -> Parameters:
        return {name: p.detach() for name, p in self.network.named_parameters()}


@dataclass
class Result:
    """For both ways to train, the loss after each step of adaptation."""

    losses: dict[str, list[float]]
    picture: Path


def draw(learners: dict[str, Learner], losses: dict[str, list[float]], task: Task, folder: Path) -> Path:
    made = figure(12, 4)
    *plots, curve = made.subplots(1, 3)
    grid = lucid.linspace(-5, 5, 200).reshape(-1, 1)
    order = task.x_new[:, 0].argsort()
    for axes, (name, learner) in zip(plots, learners.items(), strict=True):
        axes.plot(
            task.x_new[order, 0].numpy(), task.y_new[order, 0].numpy(), color=GREY, lw=5, alpha=0.4, label="truth"
        )
        for steps, color, style in ((0, PURPLE, ":"), (1, ORANGE, "--"), (ADAPTATION_STEPS, BLUE, "-")):
            adapted = learner.adapted(learner.state(), task, steps)
            fit = functional_call(learner.network, adapted, grid).detach().numpy()[:, 0]
            label = f"after {steps} step{'s' * (steps > 1)}" if steps else "before"
            axes.plot(grid[:, 0].numpy(), fit, color=color, ls=style, label=label)
        axes.plot(task.x[:, 0].numpy(), task.y[:, 0].numpy(), "k^", ms=6, label="given points")
        axes.set(title=name.capitalize(), xlabel="x", ylim=(-5.5, 5.5))
    plots[1].legend(fontsize=8, loc="lower left", ncols=2)
    for (name, values), color in zip(losses.items(), (BLUE, GREY), strict=True):
        curve.plot(values, "o-", ms=4, color=color, label=name)
    curve.set(
        title="Loss on new tasks", xlabel="gradient steps on ten points", ylabel="mean squared error", ylim=(0, None)
    )
    curve.legend()
    for axes in (*plots, curve):
        axes.grid(alpha=0.3)
    return save(made, folder, "maml")


def main(argv: Sequence[str] | None = None) -> Result:
    options = parsed(__doc__, argv)
    steps = 300 if options.quick else 4000
    ways = {"learned to learn": 1, "trained on all tasks": 0}
    learners = {}
    for name, inner_steps in ways.items():
        print(name)
        learners[name] = Learner()
        learners[name].train(inner_steps, steps, np.random.default_rng(options.seed))
    many = tasks(200, np.random.default_rng(options.seed + 1), new=100)
    losses = {name: learner.losses_by_step(many) for name, learner in learners.items()}
    print(f"\nmean squared error on 200 new tasks\n{'steps':22}{''.join(f'{k:>8}' for k in (0, 1, 2, 5, 10))}")
    for name, values in losses.items():
        print(f"{name:22}{''.join(f'{values[k]:8.3f}' for k in (0, 1, 2, 5, 10))}")
    one = Task(*(part[0] for part in many))
    return Result(losses, draw(learners, losses, one, options.output))


if __name__ == "__main__":
    main()
