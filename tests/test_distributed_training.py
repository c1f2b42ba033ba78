"""Training by several processes: every mode under a real mpirun, and overlap on a throttled engine with a clock of its own."""

import pytest
from distributed_runs import all_well, needs_mpi

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.distributed.engines import throttled
from lucid.distributed.engines.engine import DONE, Engine


@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("script", ["data_parallel.py", "sharded.py", "model_parallel.py"])
def test_the_same_as_one_process(script, processes):
    all_well(script, processes)


class Clock:
    """Time that passes only as derivatives and sleeps say."""

    def __init__(self):
        self.now = self.waited = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.waited += seconds


class Twins(Engine):
    """Two processes that have the same, at once."""

    name, rank, size = "twins", 0, 2

    def __init__(self):
        self.reduced = []

    def all_reduce(self, buffer, op):
        buffer *= 2
        self.reduced.append(buffer.nbytes)
        return DONE

    def broadcast(self, buffer, root):
        return DONE

    def reduce_scatter(self, source, target, op, counts=None):
        target[:] = source.reshape(2, -1).sum(0)
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
def test_the_wait_for_others_is_hidden_behind_the_backward_pass(width, monkeypatch):
    clock, twins = Clock(), Twins()
    monkeypatch.setattr(throttled, "time", clock)
    size = 4 * (width * width + width)
    latency, bandwidth = 0.02, size / 0.8  # the gradients of a layer take 0.8 of the time of its derivative
    dist.init_process_group(dist.Throttled(twins, latency, bandwidth))
    try:
        cap = None if width == 600 else 2 * size / (1 << 20)
        model = nn.parallel.DistributedDataParallel(Slow(clock, width, 20), bucket_cap_mb=cap)
        wanted = Slow(clock, width, 20)
        wanted.load_state_dict(model.module.state_dict())
        x = lucid.rand(2, width)
        wanted(x).sum().backward()
        clock.waited = 0.0
        twins.reduced.clear()
        model(x).sum().backward()
        busy = sum(latency + n / bandwidth for n in twins.reduced)
        assert busy > 15
        assert clock.waited < 0.2 * busy, f"waited {clock.waited:.2f} of {busy:.2f}"
        for p, q in zip(model.parameters(), wanted.parameters(), strict=True):
            assert bool((p.grad == q.grad).all())
    finally:
        dist.destroy_process_group()


class Ticking(nn.Module):
    """A layer that takes one unit of the clock, forwards and backwards."""

    def __init__(self, clock, width):
        super().__init__()
        self.clock, self.layer = clock, nn.Linear(width, width)

    def forward(self, x):
        self.clock.now += 1.0
        return Timed.apply(self.layer(x), self.clock)


def test_the_next_unit_is_gathered_while_one_computes(monkeypatch):
    clock, twins, width = Clock(), Twins(), 64
    monkeypatch.setattr(throttled, "time", clock)
    size = 4 * (width * width + width)
    latency, bandwidth = 0.02, size / 0.8  # gathering a layer takes 0.8 of the time of the layer
    dist.init_process_group(dist.Throttled(twins, latency, bandwidth))
    try:
        model = nn.Sequential(*[Ticking(clock, width) for _ in range(20)])
        for layer in model:
            nn.parallel.fully_shard(layer)
        x, found, waits = lucid.rand(2, width), [], []
        for i in range(4):
            if i == 2:
                with lucid.no_grad():
                    model[1].layer.weight.mul_(2)
            clock.waited = 0.0
            out = model(x)
            waits.append(clock.waited)
            clock.waited = 0.0
            out.sum().backward()
            waits.append(clock.waited)
            found.append(out.detach())
        busy = 20 * 0.8
        assert waits[0] > busy and waits[1] > busy, "at first nobody knows what comes next"
        assert all(w < 0.2 * busy for w in waits[2::2]), waits
        assert all(w < 0.6 * waits[1] for w in waits[3::2]), "gradients are still waited for"
        assert bool((found[0] == found[1]).all() and (found[2] == found[3]).all() and (found[1] != found[2]).any())
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


def test_the_front_door_of_pytorch_has_the_same():
    import lucid.torch as torch

    torch.distributed.init_process_group("single")
    try:
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
            torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        )
        model = torch.nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook)
        optimizer = torch.distributed.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
        loss = model(torch.rand(4, 2)).square().sum()
        loss.backward()
        optimizer.step()
        assert isinstance(model.module[1], torch.nn.SyncBatchNorm)
        assert isinstance(model.module[0].weight.grad, torch.Tensor)
        sharded = torch.distributed.fsdp.fully_shard(torch.nn.Linear(2, 1))
        assert sharded(torch.ones(1, 2)).shape == (1, 1)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
        assert mesh["data"].get_local_rank() == 0
    finally:
        torch.distributed.destroy_process_group()


def test_pipelines_need_enough_layers_and_equal_parts():
    dist.init_process_group("single")
    try:
        layers = nn.Sequential(nn.Linear(2, 2))
        with pytest.raises(ValueError, match="no schedule"):
            nn.parallel.Pipeline(layers, nn.functional.mse_loss, schedule="fast")
        with pytest.raises(ValueError, match="positive counts"):
            nn.parallel.Pipeline(layers, nn.functional.mse_loss, balance=[2])
        with pytest.raises(ValueError, match="does not divide into 3 parts"):
            nn.parallel.Pipeline(layers, nn.functional.mse_loss, 3).step(lucid.ones(4, 2), lucid.ones(4, 2))
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(("sizes", "parts"), [([5, 1, 1, 1], 2), ([1, 1, 1, 1, 9], 3), ([1] * 7, 4), ([3, 3], 2)])
def test_layers_are_divided_by_their_parameters(sizes, parts):
    from itertools import combinations, pairwise

    from lucid.nn.parallel.pipeline import _balanced

    layers = nn.Sequential(*[nn.Linear(n, 1, bias=False) for n in sizes])
    counts = _balanced(layers, parts)
    ends = [0, *(sum(counts[: i + 1]) for i in range(parts))]
    assert len(counts) == parts and sum(counts) == len(sizes) and min(counts) >= 1
    weights = [n + 1 for n in sizes]
    best = min(
        max(sum(weights[a:b]) for a, b in zip((0, *cut), (*cut, len(sizes)), strict=True))
        for cut in combinations(range(1, len(sizes)), parts - 1)
    )
    assert max(sum(weights[a:b]) for a, b in pairwise(ends)) == best


class Counted(Twins):
    """The same, counting the bytes that each operation is asked to move."""

    def __init__(self):
        super().__init__()
        self.gathered = self.scattered = 0

    def all_gather(self, source, target, counts=None):
        self.gathered += target.nbytes
        if counts is None:
            return super().all_gather(source.copy(), target, counts)
        return DONE

    def reduce_scatter(self, source, target, op, counts=None):
        self.scattered += source.nbytes
        target[:] = source[: target.size] * 2
        return DONE


class Pair(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


@pytest.mark.parametrize("kind", ["data", "zero", "sharded", "tensor"])
def test_plans_count_the_bytes_that_are_exchanged(kind):
    """With no latency and a bandwidth of 1, a prediction is the bytes that one of two processes sends."""
    engine, width, depth = Counted(), 8, 3
    dist.init_process_group(engine)
    try:
        model = nn.Sequential(*[Pair(width) for _ in range(depth)])
        x = lucid.rand(4, width)
        work = dist.measure_workload(model, [x], rounds=1)
        assert work.layers == 2 * depth and work.boundary == 4 * width * 4
        free = dist.Workload(0.0, work.parameters, 0.0, work.boundary, work.layers)
        # What a ring of two sends: as much as is reduced for all, half of what is gathered or scattered.
        machine = dist.Machine(0.0, 1.0)
        if kind == "sharded":
            for block in model:
                nn.parallel.fully_shard(block)
        elif kind == "tensor":
            nn.parallel.parallelize_module(model, None, {"*.up": "column", "*.down": "row"})
        else:
            model = nn.parallel.DistributedDataParallel(model)
        optimizer = lucid.optim.ZeroOptimizer(model.parameters(), lucid.optim.SGD, lr=0.1) if kind == "zero" else None
        engine.reduced, engine.gathered, engine.scattered = [], 0, 0
        model(x.requires_grad_() if kind == "tensor" else x).sum().backward()
        if optimizer is not None:
            optimizer.step()
        marks = 4 * len(list(model.parameters())) if kind in ("data", "zero") else 0  # which parameters were used
        sent = sum(engine.reduced) - marks + engine.gathered / 2 + engine.scattered / 2
        assert sent == dist.plan(ranks=2, workload=free, machine=machine, kinds=[kind])[kind].seconds
    finally:
        dist.destroy_process_group()


def test_plans_pick_the_fastest_that_fits():
    work = dist.Workload(seconds=1.0, parameters=1e9, activations=1e9, boundary=1e6, layers=10)
    fast = dist.plan(ranks=4, workload=work, machine=dist.Machine(1e-6, 1e12))
    assert fast.best.kind == "data" and fast.best.efficiency > 0.99
    assert fast["data"].memory > fast["zero"].memory > fast["sharded"].memory
    tight = dist.plan(ranks=4, workload=work, machine=dist.Machine(1e-6, 1e10, memory=1.4e9))
    assert tight.best.kind == "tensor" and not tight["data"].fits
    none = dist.plan(ranks=4, workload=work, machine=dist.Machine(1e-6, 1e10, memory=1.0))
    assert none.best.memory == min(c.memory for c in none.choices)
    alone = dist.plan(ranks=1, workload=work, machine=dist.Machine(1e-6, 1e10))
    assert {c.seconds for c in alone.choices} == {1.0}
    shared = dist.plan(ranks=4, workload=work, machine=dist.Machine(0.0, 1e30, cores=2))
    assert shared["data"].seconds == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no way 'magic'"):
        dist.plan(ranks=1, workload=work, machine=dist.Machine(0.0, 1.0), kinds=["magic"])
    with pytest.raises(ValueError, match="give a workload"):
        dist.plan(ranks=1, machine=dist.Machine(0.0, 1.0))
