"""A graph network: digits told apart from a few labelled ones, by the graph of which images are alike."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from extras import BLUE, GREY, ORANGE, figure, imported, save
from options import parsed
from progress import progress

import lucid
from lucid import nn

CLASSES, NEIGHBOURS, LABELLED = 10, 10, 5  # labelled images of each digit


@dataclass
class Graph:
    """Images as rows, their digits, the normalised adjacency matrix, and which images have a label."""

    images: lucid.Tensor
    digits: lucid.Tensor
    adjacency: lucid.Tensor
    labelled: lucid.Tensor


def load(seed: int, count: int | None) -> Graph:
    """scikit-learn's digits, each joined to the images that are nearest to it."""
    data = imported("sklearn.datasets").load_digits()
    images, digits = data.data[:count] / 16, data.target[:count]
    near = imported("sklearn.neighbors").kneighbors_graph(images, NEIGHBOURS)
    random = np.random.default_rng(seed)
    labelled = np.concatenate([random.permutation(np.flatnonzero(digits == c))[:LABELLED] for c in range(CLASSES)])
    return Graph(
        lucid.tensor(images, dtype=lucid.float32), lucid.tensor(digits), normalised(near), lucid.tensor(labelled)
    )


def normalised(near: object) -> lucid.Tensor:
    """D^(-1/2) (A + I) D^(-1/2), where A joins two images if one is near the other, and D has the number of neighbours."""
    one_way = lucid.sparse.from_scipy(near).float()
    loops = lucid.eye(len(one_way)).to_sparse_csr()
    joined = one_way + one_way.T + loops
    joined = joined.sign()
    scale = joined.sum(1).to_dense().rsqrt()
    return joined * scale.unsqueeze(1) * scale


class GraphNetwork(nn.Module):
    """Two layers, each of which mixes what is known of an image with what is known of its neighbours."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, width), nn.Linear(width, CLASSES)
        self.drop = nn.Dropout(0.5)

    def forward(self, images: lucid.Tensor, adjacency: lucid.Tensor) -> lucid.Tensor:
        hidden = (adjacency @ self.first(self.drop(images))).relu()
        return adjacency @ self.second(self.drop(hidden))


@dataclass
class Training:
    """The loss of each step, and the share of images without a label that are recognised, with the graph and without."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)


def train(graph: Graph, steps: int, adjacency: lucid.Tensor, done: Training, accuracies: list[float]) -> lucid.Tensor:
    """Adam on the cross-entropy of the labelled images; returns what the network says of each image."""
    model = GraphNetwork()
    optimizer = lucid.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    others = lucid.ones(len(graph.digits), dtype=lucid.bool)
    others[graph.labelled] = False
    scores = graph.images
    for step in range(1, steps + 1):
        model.train()
        optimizer.zero_grad()
        scores = model(graph.images, adjacency)
        loss = nn.functional.cross_entropy(scores[graph.labelled], graph.digits[graph.labelled])
        loss.backward()
        optimizer.step()
        model.eval()
        with lucid.no_grad():
            scores = model(graph.images, adjacency)
            right = (scores.argmax(1) == graph.digits)[others].float().mean().item()
        accuracies.append(right)
        done.losses.append(loss.item())
        progress(step, steps, f"loss {loss.item():.3f}, {right:.1%} of the others recognised")
    return scores


def draw(graph: Graph, done: Training, scores: lucid.Tensor, folder: Path) -> Path:
    made = figure(11, 4.6)
    course, plane = made.subplots(1, 2, width_ratios=[1, 1.2])
    steps = range(1, len(done.accuracies) + 1)
    course.plot(steps, done.accuracies, color=BLUE, label="with the graph")
    course.plot(steps, done.alone, color=ORANGE, label="each image by itself")
    course.set(title=f"Images recognised from {LABELLED} labels a digit", xlabel="step", ylim=(0, 1))
    course.legend()
    course.grid(alpha=0.3)
    centred = scores - scores.mean(0)
    _, _, directions = lucid.linalg.svd(centred, full_matrices=False)
    points = (centred @ directions[:2].T).numpy()
    near = lucid.sparse.to_scipy(graph.adjacency).tocoo()
    chosen = near.row < near.col
    ends = np.stack([points[near.row[chosen]], points[near.col[chosen]]], 1)
    lines = imported("matplotlib.collections").LineCollection(ends, colors=GREY, linewidths=0.15, alpha=0.4)
    plane.add_collection(lines)
    plane.scatter(*points.T, c=graph.digits.numpy(), cmap="tab10", s=7)
    plane.set(title="What the network says of each image, and the graph", xticks=[], yticks=[])
    return save(made, folder, "gcn")


def main(argv: Sequence[str] | None = None) -> Training:
    options = parsed(__doc__, argv)
    graph = load(options.seed, 500 if options.quick else None)
    steps = 40 if options.quick else 200
    print(
        f"{len(graph.digits)} images, {graph.adjacency._nnz()} entries in the adjacency matrix, {len(graph.labelled)} labels"
    )
    done = Training()
    train(graph, steps, lucid.eye(len(graph.digits)).to_sparse_csr(), done, done.alone)
    done.losses.clear()
    scores = train(graph, steps, graph.adjacency, done, done.accuracies)
    print(f"\nrecognised: {done.accuracies[-1]:.1%} with the graph, {done.alone[-1]:.1%} without")
    draw(graph, done, scores, options.output)
    return done


if __name__ == "__main__":
    main()
