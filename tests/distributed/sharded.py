"""Sharded training against one process with the whole batch; run by several processes."""

import numpy as np

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.autograd import checkpoint
from lucid.nn import functional as F
from lucid.nn.parallel import (
    DistributedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
    load_unsharded_state_dict,
    unsharded_state_dict,
)
from lucid.optim import AdamW, ZeroOptimizer

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
BATCH = 8


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Tied weights, a parameter without dimensions, and first dimensions that do not divide evenly."""

    def __init__(self, recomputes=False):
        super().__init__()
        self.tokens, self.recomputes = nn.Embedding(11, 7), recomputes
        self.blocks = nn.ModuleList(Block(7) for _ in range(3))
        self.scale = nn.Parameter(lucid.tensor(1.5))

    def forward(self, x):
        h = self.tokens(x)
        for block in self.blocks:
            h = checkpoint(block, h) if self.recomputes else block(h)
        if self.recomputes:
            return checkpoint(lambda t: F.linear(t.mean(1) * self.scale, self.tokens.weight), h)
        return F.linear(h.mean(1) * self.scale, self.tokens.weight)


def made(**options):
    lucid.manual_seed(3)
    return Model(**options).double()


def sharded(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def trained(model, optimizer, parts, rank, steps=3, first=0):
    losses = []
    for step in range(first, first + steps):
        rng = np.random.default_rng(step)
        x, y = lucid.tensor(rng.integers(0, 11, (BATCH, 5))), lucid.tensor(rng.integers(0, 11, BATCH))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rank::parts]), y[rank::parts])
        loss.backward()
        optimizer.step()
        total = loss.detach().clone().to(lucid.float64)
        if parts > 1:
            dist.all_reduce(total, "mean")
        losses.append(total.item())
    return losses


def same(found, wanted, tolerance=1e-9):
    assert found.keys() == wanted.keys()
    for key in found:
        np.testing.assert_allclose(found[key].numpy(), wanted[key].numpy(), rtol=tolerance, atol=tolerance, err_msg=key)


def check_fully_sharded():
    whole = made()
    wanted = trained(whole, AdamW(whole.parameters(), lr=0.01), 1, 0)
    for options, recomputes in (({}, False), ({}, True), ({"reshard_after_forward": False}, False)):
        model = sharded(made(recomputes=recomputes), **options)
        assert model.blocks[0].up.weight.shape == (
            -(-21 // SIZE) if RANK < SIZE - 1 else 21 - (SIZE - 1) * -(-21 // SIZE),
            7,
        )
        found = trained(model, AdamW(model.parameters(), lr=0.01), SIZE, RANK)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        same(unsharded_state_dict(model), whole.state_dict())
    again = sharded(made())
    load_unsharded_state_dict(again, unsharded_state_dict(model))
    same(unsharded_state_dict(again), whole.state_dict())
    assert trained(again, AdamW(again.parameters(), lr=0.0), SIZE, RANK, 1) == trained(
        model, AdamW(model.parameters(), lr=0.0), SIZE, RANK, 1
    )


def check_compiled_steps():
    policy = MixedPrecisionPolicy(param_dtype=lucid.float32)
    for options in ({}, {"reshard_after_forward": False}, {"mp_policy": policy}):
        models = [sharded(made(), **options) for _ in range(2)]
        tolerance = 1e-4 if "mp_policy" in options else 1e-9
        steps = []
        for model in models:
            optimizer = AdamW(model.parameters(), lr=0.01)

            def step(x, y, model=model, optimizer=optimizer):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss.detach()

            steps.append(step)
        eager, fast = steps[0], lucid.compile(steps[1])
        for i in range(4):
            rng = np.random.default_rng([i, RANK])
            count = 4 + 2 * (i == 2)  # of another shape once
            x, y = lucid.tensor(rng.integers(0, 11, (count, 5))), lucid.tensor(rng.integers(0, 11, count))
            np.testing.assert_allclose(fast(x, y).item(), eager(x, y).item(), rtol=tolerance)
        for p, q in zip(*[m.parameters() for m in models], strict=True):
            np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), atol=10 * tolerance)
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=tolerance)


def check_gradients_accumulate():
    whole, model = made(), sharded(made())
    for m, parts, rank in ((whole, 1, 0), (model, SIZE, RANK)):
        for _ in range(2):
            x = lucid.tensor(np.random.default_rng(0).integers(0, 11, (BATCH, 5)))[rank::parts]
            (m(x) ** 2).mean().backward()
    rows = -(-11 // SIZE)
    wanted = whole.tokens.weight.grad[RANK * rows : (RANK + 1) * rows]
    np.testing.assert_allclose(model.tokens.weight.grad.numpy(), wanted.numpy(), atol=1e-12)


def check_mixed_precision():
    lucid.manual_seed(3)
    whole = Model()
    wanted = trained(whole, AdamW(whole.parameters(), lr=0.01), 1, 0)
    lucid.manual_seed(3)
    policy = MixedPrecisionPolicy(param_dtype=lucid.bfloat16, reduce_dtype=lucid.float32, output_dtype=lucid.float32)
    model = sharded(Model(), mp_policy=policy)
    kinds = []
    model.blocks[0].up.register_forward_hook(lambda module, args, out: kinds.append((module.weight.dtype, out.dtype)))
    found = trained(model, AdamW(model.parameters(), lr=0.01), SIZE, RANK)
    np.testing.assert_allclose(found, wanted, rtol=0.05)
    assert found != wanted and kinds[0] == (lucid.bfloat16, lucid.bfloat16)
    assert all(p.dtype == p.grad.dtype == lucid.float32 for p in model.parameters())


def check_memory():
    """During a pass, the whole parameters of one unit at a time; else parts."""
    lucid.manual_seed(0)
    width, depth = 128, 6
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)])
    for layer in model:
        fully_shard(layer)
    one = 4 * width * width
    held = sum(p.numel() * 4 for p in model.parameters())
    assert held == depth * one // SIZE
    alive = []
    units = [layer._sharded_unit for layer in model]
    x = lucid.ones(2, width, requires_grad=True)
    for layer in model:
        layer.register_forward_hook(lambda *a: alive.append(sum(u.whole is not None for u in units)))
    out = model(x)
    for node in nodes(out):
        for saved in node.saved if isinstance(node.saved, tuple) else (node.saved,):
            assert getattr(getattr(saved, "handle", None), "shape", ()) != (width, width), "a whole weight was kept"
    peak = []
    for unit in units:
        before = unit.reduced
        unit.reduced = lambda g, before=before: (peak.append(sum(u.whole is not None for u in units)), before(g))[1]
    out.sum().backward()
    assert alive == [0] * depth and max(peak) == 1 and all(u.whole is None for u in units)
    assert all(p.grad.shape == p.shape for p in model.parameters())


def nodes(tensor):
    frontier, seen = [tensor.grad_fn], set()
    while frontier:
        node = frontier.pop()
        if node is None or node._seq in seen or not hasattr(node, "saved"):
            continue
        seen.add(node._seq)
        yield node
        frontier += [e for e in node.edges if e is not None and e._seq]


def check_divided_optimizer():
    whole = made()
    wanted = trained(whole, AdamW(whole.parameters(), lr=0.01, weight_decay=0.1), 1, 0, 5)
    model = made()
    ddp = DistributedDataParallel(model)
    groups = [{"params": list(model.blocks.parameters())}, {"params": [model.tokens.weight, model.scale]}]
    optimizer = ZeroOptimizer(groups, AdamW, lr=0.01, weight_decay=0.1)
    found = trained(ddp, optimizer, SIZE, RANK)
    total = sum(p.numel() for p in model.parameters())
    mine = lucid.tensor([sum(e["exp_avg"].numel() for e in optimizer.state.values())])
    assert mine.item() <= total / SIZE + max(p.numel() for p in model.parameters())
    dist.all_reduce(mine)
    assert mine.item() == total, "each parameter has its state in one process"
    optimizer.consolidate_state_dict(to=SIZE - 1)
    state = optimizer.state_dict() if RANK == SIZE - 1 else None
    if RANK == SIZE - 1:
        alone = AdamW(groups, lr=0.5)
        alone.load_state_dict(state)
        assert len(alone.state) == len(list(model.parameters())) and alone.param_groups[0]["lr"] == 0.01
    else:
        try:
            optimizer.state_dict()
        except RuntimeError as error:
            assert "consolidate_state_dict" in str(error)
    # All have the same model, so that another process's state can be rebuilt from the first steps of one alone.
    local = made()
    alone = AdamW(
        [{"params": list(local.blocks.parameters())}, {"params": [local.tokens.weight, local.scale]}],
        lr=0.01,
        weight_decay=0.1,
    )
    trained(local, alone, 1, 0)
    again = ZeroOptimizer(groups, AdamW, lr=0.3, weight_decay=0.1)
    again.load_state_dict(alone.state_dict())
    found += trained(ddp, again, SIZE, RANK, 2, first=3)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    same(model.state_dict(), whole.state_dict(), 1e-8)


def check_groups_that_are_added_later():
    def steps(model, optimizer, processes, number):
        found = trained(model, optimizer, processes, number, 2)
        optimizer.add_param_group({"params": late(model), "lr": 0.03})
        return found + trained(model, optimizer, processes, number, 2, first=2)

    def late(model):
        inner = getattr(model, "module", model)
        return [inner.tokens.weight, inner.scale]

    whole = made()
    wanted = steps(whole, AdamW(whole.blocks.parameters(), lr=0.01), 1, 0)
    model = made()
    optimizer = ZeroOptimizer(model.blocks.parameters(), AdamW, lr=0.01)
    found = steps(DistributedDataParallel(model), optimizer, SIZE, RANK)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    same(model.state_dict(), whole.state_dict(), 1e-8)
    assert [g["lr"] for g in optimizer.param_groups] == [0.01, 0.03]
    held = lucid.tensor([sum(e["exp_avg"].numel() for e in optimizer.state.values())])
    dist.all_reduce(held)
    assert held.item() == sum(p.numel() for p in model.parameters())


for name, check in list(globals().items()):
    if name.startswith("check_"):
        check()
        dist.barrier()
print(f"rank {RANK} is well")
dist.destroy_process_group()
