"""A short tour: gradients, a Hessian, a small network that tells two moons apart, and one that reads digits."""

import sys
from itertools import pairwise
from time import perf_counter

import digits
import numpy as np
from progress import progress

import lucid

STEPS = 2000
EPOCHS = 20


def show_gradients() -> None:
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x.sin() * x).sum()
    y.backward()
    print("y = sum(x sin x) at x = [1, 2, 3]")
    print("  dy/dx          ", x.grad)
    print("  sin x + x cos x", (x.sin() + x * x.cos()).detach())


def show_hessian() -> None:
    def rosenbrock(p: lucid.Tensor) -> lucid.Tensor:
        return 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2

    minimum = lucid.tensor([1.0, 1.0])
    print("\nRosenbrock's function at its minimum [1, 1]")
    print("  gradient", lucid.func.grad(rosenbrock)(minimum))
    print("  Hessian ", str(lucid.func.hessian(rosenbrock)(minimum)).replace("\n", "\n           "))


def two_moons(count: int, rng: np.random.Generator) -> tuple[lucid.Tensor, lucid.Tensor]:
    """Points on two half circles that reach into each other, and which one each is on."""
    label = np.arange(count) % 2
    angle = rng.uniform(0, np.pi, count)
    x = np.where(label == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(label == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + 0.1 * rng.standard_normal((count, 2))
    return lucid.tensor(points, dtype=lucid.float32), lucid.tensor(label, dtype=lucid.float32)


Layers = list[tuple[lucid.Tensor, lucid.Tensor]]


def new_layers(sizes: list[int], rng: np.random.Generator) -> Layers:
    """Weights and biases of a fully connected network."""
    return [
        (
            lucid.tensor(rng.standard_normal((n, m)) / np.sqrt(n), dtype=lucid.float32, requires_grad=True),
            lucid.zeros(m, requires_grad=True),
        )
        for n, m in pairwise(sizes)
    ]


def logits(layers: Layers, x: lucid.Tensor) -> lucid.Tensor:
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = (x @ w + b).tanh()
    return (x @ weight + bias).squeeze(1)


def loss_of(layers: Layers, x: lucid.Tensor, target: lucid.Tensor) -> lucid.Tensor:
    """Mean cross entropy of the logits z: log(1 + e^z) - z t."""
    z = logits(layers, x)
    return (z.softplus() - z * target).mean()


def accuracy_of(layers: Layers, x: lucid.Tensor, target: lucid.Tensor) -> float:
    with lucid.no_grad():
        right = (logits(layers, x) > 0).float() == target
    return right.float().mean().item()


def descend(layers: Layers, rate: float) -> None:
    with lucid.no_grad():
        for parameters in layers:
            for p in parameters:
                p -= rate * p.grad
                p.grad = None


def show_training() -> bool:
    """Train, and say whether it helped."""
    rng = np.random.default_rng(0)
    x, target = two_moons(400, rng)
    x_new, target_new = two_moons(400, rng)
    layers = new_layers([2, 32, 32, 1], rng)
    print("\nA network of 2-32-32-1 units learns two moons")
    start = perf_counter()
    before = loss_of(layers, x, target).item(), accuracy_of(layers, x_new, target_new)
    for step in range(1, STEPS + 1):
        loss = loss_of(layers, x, target)
        loss.backward()
        descend(layers, rate=0.5)
        progress(step, STEPS, f"loss {loss.item():.4f}")
    after = loss_of(layers, x, target).item(), accuracy_of(layers, x_new, target_new)
    for name, (loss_now, accuracy) in (("before", before), ("after", after)):
        print(f"  {name:7} loss {loss_now:.4f}, accuracy on new points {accuracy:.1%}")
    print(f"  {STEPS} steps in {perf_counter() - start:.1f} s")
    return after[0] < before[0] / 5 and after[1] > max(before[1], 0.95)


def show_digits() -> bool:
    """Train on real images, and say whether it helped."""
    lucid.manual_seed(0)
    print("\nA network of 64-128-64-10 units reads handwritten digits")
    try:
        learn, test = digits.load(seed=0)
    except ModuleNotFoundError as missing:
        print(f"  left out: {missing}")
        return True
    done = digits.train(digits.fully_connected(), learn, test, EPOCHS)
    print(f"  {len(learn)} images to learn from; of {len(test)} others {done.accuracy:.1%} are read right")
    print(f"  {EPOCHS} epochs in {done.seconds:.1f} s")
    return done.accuracy > 0.95


def main() -> int:
    show_gradients()
    show_hessian()
    for name, learned in (("two moons", show_training), ("digits", show_digits)):
        if not learned():
            print(f"the network did not learn {name}", file=sys.stderr)
            return 1
    if not lucid.native.in_use:
        print("\nThe sources of Lucid ran as they are. `make native` compiles the hot paths, which makes it faster.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
