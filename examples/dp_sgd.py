"""Learning digits without giving away any single image: differentially private gradient descent.

`vmap(grad(loss))` gives the gradient of every image on its own. Each is cut to a bounded length, so that no image can
move the parameters far, and noise in proportion to that bound hides which images took part. The table shows what the
privacy (epsilon, smaller is better) costs in accuracy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import digits
import numpy as np
from extras import BLUE, ORANGE, figure, save
from options import parsed
from progress import progress
from scipy.special import gammaln, logsumexp

import lucid
from lucid import nn
from lucid.func import functional_call, grad, vmap

BATCH, LONGEST, RATE, DELTA = 128, 1.0, 0.5, 1e-4

Parameters = dict[str, lucid.Tensor]


def epsilon(noise: float, share: float, steps: int) -> float:
    """The epsilon for which the training is (epsilon, DELTA)-private: Rényi divergence of the sampled Gaussian.

    One step in which each image takes part with probability q has, at whole orders a, the divergence
    log Σ_k C(a, k) (1 - q)^(a-k) q^k exp(k (k - 1) / 2 noise²) / (a - 1); steps add up, and the best order counts.
    """
    if noise == 0:
        return math.inf
    found = []
    for order in range(2, 128):
        k = np.arange(order + 1)
        ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        chances = (order - k) * math.log1p(-share) + k * math.log(share)
        divergence = logsumexp(ways + chances + k * (k - 1) / (2 * noise**2)) / (order - 1)
        found.append(steps * divergence - math.log(DELTA) / (order - 1))
    return float(min(found))


class PrivateTraining:
    """A network and the private gradients of its loss."""

    def __init__(self, images: lucid.Tensor, answers: lucid.Tensor) -> None:
        self.network = nn.Sequential(nn.Flatten(0), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
        self.images, self.answers = images, answers
        self.gradients = vmap(grad(self.loss), in_dims=(None, 0, 0))

    def loss(self, parameters: Parameters, image: lucid.Tensor, answer: lucid.Tensor) -> lucid.Tensor:
        """Of one image."""
        return nn.functional.cross_entropy(functional_call(self.network, parameters, image), answer)

    def private_gradient(self, parameters: Parameters, chosen: lucid.Tensor, noise: float) -> Parameters:
        """The sum of the gradients of the chosen images, each of bounded length, with noise, over the batch size."""
        each = self.gradients(parameters, self.images[chosen], self.answers[chosen])
        length = sum(g.flatten(1).square().sum(1) for g in each.values()).sqrt()
        factor = (LONGEST / length.clamp(min=LONGEST)).detach()
        return {
            name: (lucid.einsum("b,b...->...", factor, g) + noise * LONGEST * lucid.randn(g.shape[1:])) / BATCH
            for name, g in each.items()
        }

    def train(self, noise: float, steps: int) -> Parameters:
        """Gradient descent; each image takes part in a step by chance, as the account of privacy wants."""
        parameters = {name: p.detach() for name, p in self.network.named_parameters()}
        share = BATCH / len(self.images)
        for step in range(1, steps + 1):
            chosen = lucid.nonzero(lucid.rand(len(self.images)) < share)[:, 0]
            gradient = self.private_gradient(parameters, chosen, noise)
            parameters = {name: p - RATE * gradient[name] for name, p in parameters.items()}
            progress(step, steps, f"noise {noise}")
        return parameters

    def accuracy(self, parameters: Parameters, images: lucid.Tensor, answers: lucid.Tensor) -> float:
        logits = vmap(lambda image: functional_call(self.network, parameters, image))(images)
        return (logits.argmax(1) == answers).float().mean().item()


@dataclass
class Row:
    """One line of the table."""

    noise: float
    epsilon: float
    accuracy: float


def draw(rows: list[Row], folder: Path) -> Path:
    made = figure(7.5, 4.2)
    axes = made.subplots()
    free, *private = rows
    axes.axhline(100 * free.accuracy, color=ORANGE, ls="--", lw=1.2, label=f"no noise: {free.accuracy:.1%}")
    axes.semilogx([r.epsilon for r in private], [100 * r.accuracy for r in private], "o-", color=BLUE, label="private")
    for r in private:
        place = {"xytext": (6, -12), "textcoords": "offset points", "fontsize": 9}
        axes.annotate(f"noise {r.noise:g}", (r.epsilon, 100 * r.accuracy), **place)
    axes.set(xlabel=f"epsilon, at delta = {DELTA:g}   (more private to the left)", ylabel="right on test images, %")
    axes.set(title="What privacy costs: digits with clipped, noisy gradients", ylim=(0, 102))
    axes.set_xticks([r.epsilon for r in private], labels=[f"{r.epsilon:.2g}" for r in private])
    axes.minorticks_off()
    axes.margins(x=0.12)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    return save(made, folder, "dp_sgd")


def main(argv: Sequence[str] | None = None) -> list[Row]:
    options = parsed(__doc__, argv)
    learn, test = (digits.tensors(part) for part in digits.load(options.seed))
    steps = 60 if options.quick else 400
    training = PrivateTraining(*learn)
    rows = []
    for noise in (0.0, 2.0, 16.0) if options.quick else (0.0, 0.7, 1.0, 2.0, 4.0, 8.0, 16.0):
        parameters = training.train(noise, steps)
        share = BATCH / len(learn[0])
        rows.append(Row(noise, epsilon(noise, share, steps), training.accuracy(parameters, *test)))
    print(f"\n{steps} steps, gradients of at most {LONGEST:g}, delta {DELTA:g}")
    print(f"{'noise':>6}{'epsilon':>10}{'right on test images':>24}")
    for row in rows:
        print(f"{row.noise:6g}{row.epsilon:10.2f}{row.accuracy:24.1%}")
    draw(rows, options.output)
    return rows


if __name__ == "__main__":
    main()
