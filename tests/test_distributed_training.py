"""Training by several processes: data parallel under a real mpirun, and its overlap on an engine with a simulated clock."""

import pytest
from test_distributed import needs_mpi, run

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.distributed.engines.engine import DONE, Engine, Pending


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_data_parallel(processes):
    done = run("data_parallel.py", processes)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.split("\n"))[1:] == [f"rank {r} is well" for r in range(processes)]


class Clock:
    now = 0.0
    waited = busy = 0.0


class SimulatedWait(Pending):
    def __init__(self, clock, end):
        self.clock, self.end = clock, end

    def done(self):
        return self.clock.now >= self.end

    def wait(self, seconds=None):
        self.clock.waited += max(0.0, self.end - self.clock.now)
        self.clock.now = max(self.clock.now, self.end)
        return True


class Simulated(Engine):
    """Two processes that have the same, and a network of a stated latency and bandwidth that carries one thing at a time."""

    name, rank, size = "simulated", 0, 2

    def __init__(self, clock, latency, bandwidth):
        self.clock, self.latency, self.bandwidth = clock, latency, bandwidth
        self.free = 0.0

    def _carried(self, nbytes):
        start = max(self.clock.now, self.free)
        self.free = start + self.latency + nbytes / self.bandwidth
        self.clock.busy += self.free - start
        return SimulatedWait(self.clock, self.free)

    def all_reduce(self, buffer, op):
        buffer *= 2
        return self._carried(buffer.nbytes)

    def broadcast(self, buffer, root):
        return DONE

    def all_gather(self, source, target, counts=None):
        target.reshape(2, -1)[:] = source
        return DONE


class Timed(lucid.autograd.Function):
    """Its derivative takes one unit of the clock."""

    @staticmethod
    def forward(ctx, x, clock):
        ctx.clock = clock
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        ctx.clock.now += 1.0
        return g, None


class Slow(nn.Module):
    def __init__(self, clock, width, layers):
        super().__init__()
        self.clock, self.layers = clock, nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(Timed.apply(x, self.clock))
        return Timed.apply(x, self.clock)


@pytest.mark.parametrize("width", [600, 64])  # large parameters, and buckets of small ones
def test_the_wait_for_others_is_hidden_behind_the_backward_pass(width):
    clock = Clock()
    size = 4 * (width * width + width)
    dist.init_process_group(Simulated(clock, 0.02, size / 0.8))  # a layer's gradients take 0.8 of its derivative
    try:
        cap = None if width == 600 else 2 * size / (1 << 20)
        model = nn.parallel.DistributedDataParallel(Slow(clock, width, 20), bucket_cap_mb=cap)
        wanted = Slow(clock, width, 20)
        wanted.load_state_dict(model.module.state_dict())
        x = lucid.rand(2, width)
        wanted(x).sum().backward()
        clock.now = clock.waited = clock.busy = 0.0
        model(x).sum().backward()
        assert clock.busy > 15
        assert clock.waited < 0.2 * clock.busy, f"waited {clock.waited:.2f} of {clock.busy:.2f}"
        for p, q in zip(model.parameters(), wanted.parameters(), strict=True):
            assert bool((p.grad == q.grad).all())
    finally:
        dist.destroy_process_group()


def test_one_process_exchanges_nothing():
    dist.init_process_group("single")
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        model(lucid.ones(4, 2)).sum().backward()
        assert dist.group.WORLD.calls == 0 and model.module.bias.grad.item() == 4
    finally:
        dist.destroy_process_group()
