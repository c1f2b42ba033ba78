"""Saves and loads models and optimizers of which each process has parts: `divided.py save|load sharded|tensor folder`."""

import os
import sys

import numpy as np

import lucid
import lucid.distributed as dist
from lucid import nn, optim
from lucid.nn.parallel import (
    fully_shard,
    load_sharded_optimizer_state_dict,
    load_sharded_state_dict,
    parallelize_module,
    sharded_optimizer_state_dict,
    sharded_state_dict,
)

how, kind, folder = sys.argv[1:]
dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 5)
        self.scale = nn.Parameter(lucid.tensor(1.5))

    def forward(self, x):
        return self.second(self.first(x).tanh()) * self.scale


def divided():
    lucid.manual_seed(0)
    model = Net()
    if kind == "tensor":
        return parallelize_module(model, None, {"first": "column", "second": "row"})
    fully_shard(model.first)
    return fully_shard(model)


def trained(model, optimizer, steps):
    x = lucid.tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def refused(state):
    try:
        lucid.save_parallel(state, os.path.join(folder, "refused"))
    except ValueError as error:
        return "is not the same in all processes" in str(error)
    return SIZE == 1


model = divided()
optimizer = optim.AdamW(model.parameters(), lr=0.1)
if how == "save":
    trained(model, optimizer, 2)
    assert refused({"model": model.state_dict()})
    assert refused({"model": sharded_state_dict(model), "optimizer": optimizer.state_dict()})
    state = {"model": sharded_state_dict(model), "optimizer": sharded_optimizer_state_dict(optimizer)}
    lucid.save_parallel(state, folder)
    lucid.save_parallel({"loss": trained(model, optimizer, 2)}, os.path.join(folder, "end"))
else:
    saved = lucid.load_parallel(folder, {"model": sharded_state_dict(model)})
    load_sharded_optimizer_state_dict(optimizer, saved["optimizer"])
    wanted = lucid.load_parallel(os.path.join(folder, "end"))["loss"]
    np.testing.assert_allclose(trained(model, optimizer, 2), wanted, rtol=1e-5)
    # Whole tensors do as well.
    other = divided()
    load_sharded_state_dict(other, lucid.load_parallel(folder)["model"])
    parts, found = (
        sharded_state_dict(other),
        lucid.load_parallel(folder, {"model": sharded_state_dict(divided())})["model"],
    )
    for name, part in parts.items():
        ours, theirs = (getattr(x, "tensor", x) for x in (part, found[name]))
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy(), err_msg=name)
print(f"rank {RANK} is well")
dist.destroy_process_group()
