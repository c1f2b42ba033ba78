"""Steps of data parallel training by several processes, and of PyTorch's with gloo in turn, where it is installed.

mpirun -n 2 --oversubscribe python -m benchmarks.data_parallel [--width 1024] [--layers 6] [--batch 64] [--rounds 7]

With one process the second figure is the same without DistributedDataParallel.
"""

import argparse
import os
import statistics
import time

import numpy as np

import lucid
import lucid.distributed as dist
from benchmarks.timing import turns
from lucid import nn


def made(library, width, layers):
    return library.nn.Sequential(
        *[each for _ in range(layers) for each in (library.nn.Linear(width, width), library.nn.ReLU())]
    )


def stepper(library, wrap, optimizer, options, x):
    library.manual_seed(0)
    model = wrap(made(library, options.width, options.layers))
    descent = optimizer(model.parameters(), lr=0.01)
    x = library.tensor(x)

    def step():
        descent.zero_grad()
        (model(x) ** 2).mean().backward()
        descent.step()

    return step


def main():
    reader = argparse.ArgumentParser()
    for name, value in (("width", 1024), ("layers", 6), ("batch", 64), ("rounds", 7), ("steps", 4)):
        reader.add_argument(f"--{name}", type=int, default=value)
    options = reader.parse_args()
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    x = np.random.default_rng(rank).standard_normal((options.batch, options.width)).astype(np.float32)
    steps = {"lucid": stepper(lucid, nn.parallel.DistributedDataParallel, lucid.optim.SGD, options, x)}
    if size == 1:
        steps["lucid without it"] = stepper(lucid, lambda module: module, lucid.optim.SGD, options, x)
    else:
        steps["lucid, no overlap"] = stepper(lucid, Late, lucid.optim.SGD, options, x)
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        if size > 1:
            os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
            os.environ.setdefault("MASTER_PORT", "29511")
            torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        wrap = torch.nn.parallel.DistributedDataParallel if size > 1 else lambda module: module
        steps["torch"] = stepper(torch, wrap, torch.optim.SGD, options, x)
    times = {name: [] for name in steps}
    for name in turns(list(steps), options.rounds + 1):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(options.steps):
            steps[name]()
        dist.barrier()
        times[name].append((time.perf_counter() - start) / options.steps)
    times = {name: found[1:] for name, found in times.items()}
    if rank == 0:
        base = statistics.median(times["lucid"])
        for name, found in times.items():
            ratio = statistics.median(a / b for a, b in zip(found, times["lucid"], strict=True))
            print(f"{name:20} {statistics.median(found) * 1e3:8.2f} ms  {ratio:6.3f} of {base * 1e3:.2f} ms")
    dist.destroy_process_group()


class Late(nn.Module):
    """All gradients averaged after the pass, one after another."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.inner = nn.parallel.DistributedDataParallel(module)
        reducer = self.inner._reducer
        arrived = reducer.arrived
        held = []
        ended = reducer.ended
        reducer.arrived = lambda *told: held.append(told)

        def end(late):
            for told in held:
                arrived(*told)
            held.clear()
            ended(late)

        reducer.ended = end

    def forward(self, x):
        return self.inner(x)


if __name__ == "__main__":
    main()
