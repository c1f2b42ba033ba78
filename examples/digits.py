"""Handwritten digits: a fully connected and a convolutional network on 1797 real images of 8 by 8 pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from extras import BLUE, ORANGE, figure, imported, save
from options import parsed
from progress import progress

import lucid
from lucid import nn
from lucid.data import DataLoader, Subset, TensorDataset, random_split

TEST_SHARE = 0.2
COLORS = {"fully connected": BLUE, "convolutional": ORANGE}


def load(seed: int) -> tuple[Subset, Subset]:
    """Images of shape (1, 8, 8) between 0 and 1 with their digits: a part to learn from, and a part to test on."""
    data = imported("sklearn.datasets").load_digits()
    images = lucid.tensor(data.images[:, None] / 16, dtype=lucid.float32)
    whole = TensorDataset(images, lucid.tensor(data.target))
    learn, test = random_split(whole, [1 - TEST_SHARE, TEST_SHARE], lucid.Generator().manual_seed(seed))
    return learn, test


def tensors(part: Subset) -> tuple[lucid.Tensor, lucid.Tensor]:
    """All images and all digits of a part."""
    return next(iter(DataLoader(part, batch_size=len(part))))


def fully_connected() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip


@dataclass
class Training:
    """What one network learned: the course of its training, and its answers to the test images."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    answers: np.ndarray = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        return self.accuracies[-1]


def answers(model: nn.Module, images: lucid.Tensor) -> lucid.Tensor:
    """The most likely digit of each image."""
    model.eval()
    with lucid.no_grad():
        found = model(images).argmax(1)
    model.train()
    return found


def train(model: nn.Module, learn: Subset, test: Subset, epochs: int, rate: float = 4e-3) -> Training:
    """Adam with a learning rate that rises and falls once, in batches of 64."""
    batches = DataLoader(learn, batch_size=64, shuffle=True)
    optimizer = lucid.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = lucid.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=epochs * len(batches))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    images, digits = tensors(test)
    done, start = Training(), perf_counter()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(y)
        found = answers(model, images)
        done.losses.append(total / len(learn))
        done.accuracies.append((found == digits).float().mean().item())
        progress(epoch, epochs, f"loss {done.losses[-1]:.3f}, right on test images {done.accuracy:.1%}")
    done.answers, done.seconds = found.numpy(), perf_counter() - start
    return done


def draw(trainings: dict[str, Training], test: Subset, folder: Path) -> Path:
    """The course of both trainings, and what the networks get wrong."""
    made = figure(11, 4.8)
    left, right = made.subfigures(1, 2, width_ratios=[1, 1.05], wspace=0.04)
    draw_curves(left, trainings)
    draw_mistakes(right, trainings, *(t.numpy() for t in tensors(test)))
    return save(made, folder, "digits")


def draw_curves(part: Any, trainings: dict[str, Training]) -> None:
    upper, lower = part.subplots(2, 1, sharex=True)
    for name, done in trainings.items():
        epochs = range(1, len(done.losses) + 1)
        upper.plot(epochs, done.losses, color=COLORS[name], label=f"{name}: {done.accuracy:.1%} right")
        lower.plot(epochs, 100 * (1 - np.array(done.accuracies)), color=COLORS[name])
    upper.set(ylabel="loss", title="Learning")
    upper.legend()
    lower.set(yscale="symlog", xlabel="epoch", ylabel="wrong on test images, %", ylim=(0, 100))
    ticks = [0, 1, 2, 5, 10, 20, 50, 100]
    lower.set_yticks(ticks, labels=map(str, ticks))
    lower.minorticks_off()
    for axes in (upper, lower):
        axes.grid(alpha=0.3)


def draw_mistakes(part: Any, trainings: dict[str, Training], images: np.ndarray, digits: np.ndarray) -> None:
    """Images that a network got wrong, with the digit and the answer: at most five of one and ten of the other."""
    part.suptitle("Mistakes, in the colour of the network", fontsize=11)
    grid = iter(part.subplots(3, 5).flat)
    for name, rows in (("convolutional", 1), ("fully connected", 2)):
        found = trainings[name].answers
        for k in np.flatnonzero(found != digits)[: 5 * rows]:
            axes = next(grid)
            axes.imshow(images[k, 0], cmap="gray_r")
            axes.set_title(f"{digits[k]}, not {found[k]}", color=COLORS[name], fontsize=9, loc="center")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
    for axes in grid:
        axes.set_axis_off()


def main(argv: Sequence[str] | None = None) -> dict[str, Training]:
    options = parsed(__doc__, argv)
    learn, test = load(options.seed)
    print(f"{len(learn)} images to learn from, {len(test)} to test on")
    trainings = {}
    for name, new in {"fully connected": fully_connected, "convolutional": convolutional}.items():
        model = new()
        print(f"\n{name}: {sum(p.numel() for p in model.parameters())} parameters")
        trainings[name] = train(model, learn, test, epochs=8 if options.quick else 40)
    print(f"\n{'network':16}{'loss':>8}{'test images':>14}{'seconds':>10}")
    for name, done in trainings.items():
        print(f"{name:16}{done.losses[-1]:8.3f}{done.accuracy:14.1%}{done.seconds:10.1f}")
    draw(trainings, test, options.output)
    return trainings


if __name__ == "__main__":
    main()
