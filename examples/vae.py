"""A variational autoencoder: handwritten digits as points of a plane, and new digits from points of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from extras import BLUE, ORANGE, figure, imported, save
from options import parsed
from progress import progress

import lucid
from lucid import nn
from lucid.data import DataLoader, TensorDataset
from lucid.distributions import Distribution, Independent, Normal, kl_divergence

PIXELS, LATENT = 64, 2
NOISE = 0.3  # the standard deviation of pixels; with less of it, points spread further than the prior
TEST_SHARE = 0.2


def load(seed: int) -> tuple[lucid.Tensor, lucid.Tensor, np.ndarray]:
    """Images as rows of pixels between 0 and 1: those to learn from, and those to test on, with their digits."""
    data = imported("sklearn.datasets").load_digits()
    order = np.random.default_rng(seed).permutation(len(data.data))
    test, learn = np.split(order, [int(TEST_SHARE * len(order))])
    images = lucid.tensor(data.data / 16, dtype=lucid.float32)
    return images[learn], images[test], data.target[test]


class Autoencoder(nn.Module):
    """The encoder gives a distribution of points for an image, the decoder one of images for a point."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, width), nn.SiLU(), nn.Linear(width, 2 * LATENT))
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, PIXELS)
        )

    def encode(self, images: lucid.Tensor) -> Distribution:
        loc, log_scale = self.encoder(images).chunk(2, dim=-1)
        return Independent(Normal(loc, log_scale.exp()), 1)

    def decode(self, points: lucid.Tensor) -> Distribution:
        return Independent(Normal(self.decoder(points).sigmoid(), NOISE), 1)

    def bound(self, images: lucid.Tensor) -> tuple[lucid.Tensor, lucid.Tensor]:
        """The two parts of the bound of log p(image): how well a point describes it, less what the point says itself."""
        posterior = self.encode(images)
        points = posterior.rsample()
        prior = Independent(Normal(lucid.zeros_like(points), 1.0), 1)
        return self.decode(points).log_prob(images).mean(), kl_divergence(posterior, prior).mean()


@dataclass
class Training:
    """The bound for images to learn from and for test images, after each epoch, and the model."""

    model: Autoencoder
    learned: list[float] = field(default_factory=list)
    tested: list[float] = field(default_factory=list)


def train(learn: lucid.Tensor, test: lucid.Tensor, epochs: int, rate: float = 3e-3) -> Training:
    """Adam on the negative bound, in batches of 64."""
    done = Training(Autoencoder())
    optimizer = lucid.optim.Adam(done.model.parameters(), lr=rate)
    batches = DataLoader(TensorDataset(learn), batch_size=64, shuffle=True)
    schedule = lucid.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=epochs * len(batches))
    for epoch in range(1, epochs + 1):
        total = 0.0
        for (images,) in batches:
            optimizer.zero_grad()
            likelihood, divergence = done.model.bound(images)
            (divergence - likelihood).backward()
            optimizer.step()
            schedule.step()
            total += (likelihood - divergence).item() * len(images)
        with lucid.no_grad():
            likelihood, divergence = done.model.bound(test)
        done.learned.append(total / len(learn))
        done.tested.append((likelihood - divergence).item())
        progress(epoch, epochs, f"bound of log p {done.learned[-1]:.1f}, on test images {done.tested[-1]:.1f}")
    return done


def manifold(model: Autoencoder, side: int) -> np.ndarray:
    """The mean images of points at the quantiles of the prior, as one picture."""
    chances = lucid.linspace(0.03, 0.97, side)
    quantiles = Normal(0.0, 1.0).icdf(chances)
    rows, columns = lucid.meshgrid(quantiles.flip(0), quantiles, indexing="ij")
    with lucid.no_grad():
        images = model.decode(lucid.stack([columns, rows], -1)).mean
    framed = nn.functional.pad(images.reshape(side, side, 8, 8), (1, 1, 1, 1))
    return framed.permute(0, 2, 1, 3).reshape(10 * side, 10 * side).numpy()


def draw(done: Training, test: lucid.Tensor, digits: np.ndarray, folder: Path) -> Path:
    made = figure(13, 4.4)
    course, plane, images = made.subplots(1, 3, width_ratios=[0.8, 1.1, 1])
    epochs = range(1, len(done.learned) + 1)
    course.plot(epochs, done.learned, color=BLUE, label="images to learn from")
    course.plot(epochs, done.tested, color=ORANGE, label="test images")
    course.set(title="Bound of log p(image)", xlabel="epoch")
    course.legend()
    course.grid(alpha=0.3)
    draw_plane(plane, done.model, test, digits)
    images.imshow(manifold(done.model, 14), cmap="gray_r")
    images.set(title="Images of points at the prior's quantiles", xticks=[], yticks=[])
    return save(made, folder, "vae")


def draw_plane(axes: Any, model: Autoencoder, test: lucid.Tensor, digits: np.ndarray) -> None:
    """The mean point of each test image, as its digit."""
    with lucid.no_grad():
        points = model.encode(test).mean.numpy()
    colors = imported("matplotlib").colormaps["tab10"]
    for point, digit in zip(points, digits, strict=True):
        axes.text(*point, str(digit), color=colors(digit), fontsize=7, ha="center", va="center")
    reach = 1.05 * np.abs(points).max()
    axes.set(title="Points of test images", xlim=(-reach, reach), ylim=(-reach, reach))


def main(argv: Sequence[str] | None = None) -> Training:
    options = parsed(__doc__, argv)
    learn, test, digits = load(options.seed)
    print(f"{len(learn)} images to learn from, {len(test)} to test on, {LATENT} numbers for each")
    done = train(learn, test, epochs=12 if options.quick else 150)
    print(f"\nbound of log p(image): {done.learned[-1]:.1f}, on test images {done.tested[-1]:.1f}")
    draw(done, test, digits, options.output)
    return done


if __name__ == "__main__":
    main()
