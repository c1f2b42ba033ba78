"""A small GPT trained by several processes in a grid: parts of the batch along one dimension, parts of weights along another.

    python -m lucid.distributed.run -n 4 examples/distributed_gpt.py --tensor 2

With one process, `python examples/distributed_gpt.py`, it is the same training.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from chargpt import QUICK, Size, Text, batch_of, docstrings
from progress import progress

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.nn.parallel import DistributedDataParallel, parallelize_module, vocab_parallel_cross_entropy

PLAN = {
    "what": "vocabulary",
    "layers.*.query": "column",
    "layers.*.key": "column",
    "layers.*.value": "column",
    "layers.*.out": "row",
    "layers.*.up": "column",
    "layers.*.down": "row",
    "head": "column",
}


class Layer(nn.Module):
    """Causal attention and two linear layers. Of a part of the weights it computes a part of the heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.depth = width // heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: lucid.Tensor) -> lucid.Tensor:
        y = self.first(x)
        heads = [
            layer(y).unflatten(-1, (-1, self.depth)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        ]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """Such layers over the sum of what each character is and where it stands."""

    def __init__(self, characters: int, size: Size) -> None:
        super().__init__()
        self.what, self.where = nn.Embedding(characters, size.width), nn.Embedding(size.context, size.width)
        self.layers = nn.ModuleList(Layer(size.width, size.heads) for _ in range(size.layers))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, characters, bias=False)
        for table in (self.what, self.where):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, numbers: lucid.Tensor) -> lucid.Tensor:
        x = self.what(numbers) + self.where(lucid.arange(numbers.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@dataclass
class Result:
    """The loss of each step, and how large the own part of the model is."""

    losses: list[float]
    parameters: int


def train(model: nn.Module, text: Text, size: Size, mesh: dist.DeviceMesh, seed: int) -> list[float]:
    """All processes draw the same batches; each row of the grid learns from its part of them."""
    rows, tensor = mesh.get_group("data"), mesh.get_group("tensor")
    optimizer = lucid.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = lucid.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=size.steps, pct_start=0.1)
    rng, losses = np.random.default_rng(seed), []
    for step in range(1, size.steps + 1):
        inputs, targets = (t[rows.rank() :: rows.size()] for t in batch_of(text.learn, size, rng))
        optimizer.zero_grad()
        loss = vocab_parallel_cross_entropy(model(inputs), targets, tensor)
        loss.backward()
        optimizer.step()
        schedule.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, "mean", rows)
        losses.append(mean.item())
        if dist.get_rank() == 0:
            progress(step, size.steps, f"loss {losses[-1]:.2f}")
    return losses


def main(argv: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small size that takes a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    parser.add_argument("--tensor", type=int, default=1, help="processes that share each weight (default: 1)")
    options = parser.parse_args(argv)
    size = QUICK if options.quick else Size()
    lucid.manual_seed(options.seed)
    dist.init_process_group()
    try:
        processes = dist.get_world_size()
        shape = (processes // options.tensor, options.tensor)
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
        text = Text(docstrings(size.characters), np.random.default_rng(options.seed))
        characters = -(-len(text.characters) // options.tensor) * options.tensor
        model = parallelize_module(GPT(characters, size), mesh["tensor"], PLAN)
        parameters = sum(p.numel() for p in model.parameters())
        if dist.get_rank() == 0:
            print(
                f"{mesh}: {parameters} parameters in each process, {size.batch // shape[0]} of {size.batch} stretches"
            )
        losses = train(
            DistributedDataParallel(model, process_group=mesh.get_group("data")), text, size, mesh, options.seed
        )
        if dist.get_rank() == 0:
            print(f"loss: {losses[0]:.4f} before, {np.mean(losses[-10:]):.4f} after")
        return Result(losses, parameters)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
