"""Data parallel training against one process with the whole batch; run by several processes."""

from contextlib import nullcontext

import numpy as np

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.data import DistributedSampler
from lucid.nn import functional as F
from lucid.nn.parallel import DistributedDataParallel, allreduce_hook, bf16_compress_hook

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
BATCH = 8


def mlp():
    return nn.Sequential(nn.Linear(6, 600), nn.Tanh(), nn.Linear(600, 500), nn.ReLU(), nn.Linear(500, 3))


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )


class GPT(nn.Module):
    """One block, with the embedding used again at the end."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(5, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        h = self.tokens(x) + self.places(lucid.arange(5))
        h = self.block(h, src_mask=nn.Transformer.generate_square_subsequent_mask(5), is_causal=True)
        return F.linear(h.mean(1), self.tokens.weight)


def data(shape, classes, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, shape) if classes == 11 else rng.standard_normal(shape).astype(np.float32)
    return lucid.tensor(x), lucid.tensor(rng.integers(0, classes, shape[0]))


def trained(model, shape, classes, parts, rank, double=True):
    """Losses of the whole batch, and what the parameters and buffers are after some steps."""
    model = model.double() if double else model
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    optimizer = lucid.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(3):
        x, y = data(shape, classes, step)
        x = x.double() if double and x.is_floating_point() else x
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rank::parts]), y[rank::parts])
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if parts > 1:
            dist.all_reduce(total, "mean")
        losses.append(total.item())
    return losses, {k: v.detach().numpy().copy() for k, v in inner.state_dict().items()}


def close(found, wanted, tolerance=1e-9):
    np.testing.assert_allclose(found[0], wanted[0], rtol=tolerance)
    assert found[1].keys() == wanted[1].keys()
    for key in found[1]:
        np.testing.assert_allclose(found[1][key], wanted[1][key], rtol=tolerance, atol=tolerance, err_msg=key)


def made(kind, seed=0):
    lucid.manual_seed(seed)
    return kind()


def check_same_as_one_process():
    for kind, shape, classes in ((mlp, (BATCH, 6), 3), (cnn, (BATCH, 2, 6, 6), 3), (GPT, (BATCH, 5), 11)):
        wanted = trained(made(kind), shape, classes, 1, 0)
        runs = []
        for options in ({}, {"bucket_cap_mb": 0.01}, {"find_unused_parameters": True}):
            model = nn.SyncBatchNorm.convert_sync_batchnorm(made(kind, seed=RANK))
            if RANK == 0:
                model = nn.SyncBatchNorm.convert_sync_batchnorm(made(kind))  # the others begin with what this one has
            ddp = DistributedDataParallel(model.double(), **options)
            runs.append(trained(ddp, shape, classes, SIZE, RANK))
            close(runs[-1], wanted)
        again = trained(
            DistributedDataParallel(made(lambda k=kind: nn.SyncBatchNorm.convert_sync_batchnorm(k()).double())),
            shape,
            classes,
            SIZE,
            RANK,
        )
        assert again[0] == runs[0][0]
        assert all((again[1][k] == runs[0][1][k]).all() for k in again[1]), (
            "a repeated run must be the same to the last bit"
        )


def check_gradients_are_exchanged_during_the_pass():
    ddp = DistributedDataParallel(made(mlp))
    sent = []
    reducer = ddp._reducer
    assert len(reducer.buckets) == 2 and reducer.buckets[0].parameters()[0].shape == (500, 600)
    x = lucid.ones(2, 6, requires_grad=True)
    x.register_hook(lambda g: sent.append((reducer.sent, len(reducer.direct))))
    first = next(ddp.parameters())
    seen = ddp.module[0](x)
    seen.register_hook(lambda g: sent.append((reducer.sent, len(reducer.direct))))
    reducer.is_listening = True
    h = seen
    for layer in list(ddp.module)[1:]:
        h = layer(h)
    h.sum().backward()
    assert sent[0] == (1, 1), f"the large gradient is sent, where it lies, before the first layer runs: {sent}"
    assert first.grad is not None and reducer.sent == 0


def check_accumulation_without_exchange():
    x, y = data((BATCH, 6), 3, 1)
    whole = made(mlp).double()
    F.cross_entropy(whole(x.double()), y).backward()
    F.cross_entropy(whole(x.double() * 2), y).backward()
    ddp = DistributedDataParallel(made(mlp).double())
    mine, labels = x.double()[RANK::SIZE], y[RANK::SIZE]
    with ddp.no_sync():
        F.cross_entropy(ddp(mine), labels).backward()
        local = [p.grad.clone() for p in ddp.parameters()]
    F.cross_entropy(ddp(mine * 2), labels).backward()
    for p, q, before in zip(ddp.parameters(), whole.parameters(), local, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-12)
        everyone = lucid.empty(SIZE, *before.shape, dtype=before.dtype)
        dist.all_gather_into_tensor(everyone, before)
        assert bool((everyone[0] != everyone[1]).any()), "inside no_sync gradients are those of each process"


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, branch):
        return (self.a if branch == 0 else self.b)(x)


def check_unused_parameters():
    ddp = DistributedDataParallel(made(Branches), find_unused_parameters=True)
    ddp(lucid.ones(1, 2), RANK % 2).sum().backward()
    share = sum(1 for r in range(SIZE) if r % 2 == 0) / SIZE
    np.testing.assert_allclose(ddp.module.a.bias.grad.numpy(), share)
    np.testing.assert_allclose(ddp.module.b.bias.grad.numpy(), 1 - share)
    assert ddp.module.c.bias.grad is None
    for options in ({}, {"static_graph": True}):
        ddp = DistributedDataParallel(made(Branches), **options)
        try:
            if options:
                ddp(lucid.ones(1, 2), 0).sum().backward()
                ddp.zero_grad()
            ddp(lucid.ones(1, 2), 1 if options else RANK % 2).sum().backward()
        except dist.DistributedError as error:
            assert "a.weight" in str(error), error
        else:
            raise AssertionError("a parameter that is left out must be an error in every process")


def check_modules_that_differ():
    try:
        DistributedDataParallel(nn.Linear(3, 2 + RANK))
    except dist.DistributedError as error:
        assert "'weight float32[2, 3]' on rank 0 and 'weight float32[3, 3]' on rank 1" in str(error), error
    else:
        raise AssertionError("modules that differ must be an error in every process")


def check_compression():
    x, y = data((BATCH, 6), 3, 1)
    whole = made(mlp)
    F.cross_entropy(whole(x), y).backward()
    ddp = DistributedDataParallel(made(mlp))
    ddp.register_comm_hook(None, bf16_compress_hook)
    F.cross_entropy(ddp(x[RANK::SIZE]), y[RANK::SIZE]).backward()
    worst = 0.0
    for p, q in zip(ddp.parameters(), whole.parameters(), strict=True):
        scale = float(q.grad.abs().max())
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=0.02 * scale)
        worst = max(worst, float((p.grad - q.grad).abs().max()) / scale)
    assert worst > 1e-5, "gradients were not rounded"


def check_buffers_are_those_of_the_first():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    ddp = DistributedDataParallel(model)
    ddp(lucid.rand(4, 2) + RANK)
    ddp.eval()(lucid.rand(4, 2))
    found = lucid.empty(SIZE, 3)
    dist.all_gather_into_tensor(found, model[1].running_mean)
    assert bool((found == found[0]).all())


def check_hooks_that_replace_gradients():
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    ddp.module.bias.register_hook(lambda g: g * (RANK + 1))
    ddp(lucid.ones(1, 2)).sum().backward()
    np.testing.assert_allclose(ddp.module.bias.grad.numpy(), (SIZE + 1) / 2)


def check_scaler():
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    optimizer = lucid.optim.SGD(ddp.parameters(), lr=0.1)
    scaler = lucid.amp.GradScaler("cpu", init_scale=8.0)
    before = ddp.module.weight.detach().clone()
    scaler.scale(ddp(lucid.full((1, 2), float("inf") if RANK == SIZE - 1 else 1.0)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0 and bool((ddp.module.weight == before).all())


def check_sampler():
    sampler = DistributedSampler(range(10), seed=3)
    assert (sampler.num_replicas, sampler.rank) == (SIZE, RANK)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mine = lucid.tensor(list(sampler))
        everyone = lucid.empty(SIZE, len(mine), dtype=mine.dtype)
        dist.all_gather_into_tensor(everyone, mine)
        assert set(everyone.reshape(-1).tolist()) == set(range(10))


def steps_of(model, zeroes=True):
    optimizer = lucid.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        if zeroes:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def refused(call, error, word):
    try:
        call()
    except error as found:
        assert word in str(found), found
    else:
        raise AssertionError(f"there must be an error that says {word!r}")


def check_compiled_steps():
    for kind, shape, classes in ((mlp, (BATCH, 6), 3), (cnn, (BATCH, 2, 6, 6), 3), (GPT, (BATCH, 5), 11)):
        for zeroes in (True, False):
            one, other = (DistributedDataParallel(made(kind).double()) for _ in range(2))
            eager, fast = steps_of(one, zeroes), lucid.compile(steps_of(other, zeroes))
            for i in range(4):
                x, y = data((shape[0] + 2 * SIZE * (i == 2), *shape[1:]), classes, i)  # of another shape once
                x = (x.double() if x.is_floating_point() else x)[RANK::SIZE]
                np.testing.assert_allclose(fast(x, y[RANK::SIZE]).item(), eager(x, y[RANK::SIZE]).item(), rtol=1e-9)
            for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
                np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=1e-10, err_msg=name)
                np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), atol=1e-10, err_msg=name)
            for p, q in zip(one.buffers(), other.buffers(), strict=True):
                np.testing.assert_allclose(q.numpy(), p.numpy(), atol=1e-10)


def uneven(step, divides_by_all):
    """One step of all processes, of which the r-th has r + 2 inputs, by one of them that has them all."""
    models = [r for r in range(SIZE) if step < r + 2]
    return models, SIZE if divides_by_all else len(models)


def uneven_input(step, rank):
    rng = np.random.default_rng([step, rank])
    return lucid.tensor(rng.standard_normal((3, 2, 6, 6))), lucid.tensor(rng.integers(0, 3, 3))


def check_join():
    from lucid.optim import AdamW, ZeroOptimizer

    for divides_by_all in (True, False):
        for zero in (False, True):
            whole = made(cnn).double()
            one = AdamW(whole.parameters(), lr=0.01)
            buffers = {k: v.clone() for k, v in whole.named_buffers()}
            for step in range(SIZE + 1):
                active, divisor = uneven(step, divides_by_all)
                one.zero_grad()
                kept = None
                for r in active:
                    for k, v in whole.named_buffers():
                        v.copy_(buffers[k])
                    x, y = uneven_input(step, r)
                    (F.cross_entropy(whole(x), y) / divisor).backward()
                    kept = {k: v.clone() for k, v in whole.named_buffers()}  # the last one's go to all
                buffers = kept
                one.step()
            ddp = DistributedDataParallel(made(cnn).double())
            optimizer = ZeroOptimizer(ddp.parameters(), AdamW, lr=0.01) if zero else AdamW(ddp.parameters(), lr=0.01)
            objects = [ddp, optimizer] if zero else [ddp]
            with dist.Join(objects, divide_by_initial_world_size=divides_by_all):
                for step in range(RANK + 2):
                    x, y = uneven_input(step, RANK)
                    optimizer.zero_grad()
                    F.cross_entropy(ddp(x), y).backward()
                    optimizer.step()
            for (name, p), q in zip(ddp.module.named_parameters(), whole.parameters(), strict=True):
                np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), atol=1e-9, err_msg=name)
            for k, v in ddp.module.named_buffers():
                np.testing.assert_allclose(v.numpy(), buffers[k].numpy(), atol=1e-9, err_msg=k)
    with ddp.join():  # the same again, after passes without exchange, and one without gradients
        for step in range(2 - RANK % 2):
            with ddp.no_sync():
                ddp(uneven_input(step, RANK)[0]).sum().backward()
            with lucid.no_grad():
                ddp(uneven_input(step, RANK)[0])
            ddp(uneven_input(step, RANK)[0]).sum().backward()
    ddp(uneven_input(0, RANK)[0]).sum().backward()

    def early():
        with dist.Join([ddp], throw_on_early_termination=True):
            for step in range(RANK + 2):
                ddp(uneven_input(step, RANK)[0]).sum().backward()

    refused(early, RuntimeError, f"1 of {SIZE} processes have no more inputs")
    refused(lambda: dist.Join([1]), TypeError, "DistributedDataParallel")


def check_local_gradients_count_in_compiled_steps():
    models = [DistributedDataParallel(made(mlp).double()) for _ in range(2)]
    x, y = data((BATCH, 6), 3, RANK)
    passes = []
    for model, wrap in zip(models, (lambda f: f, lucid.compile), strict=True):
        with model.no_sync():
            F.cross_entropy(model(x.double()), y).backward()
        passes.append(wrap(lambda x, y, m=model: (F.cross_entropy(m(x), y) + F.cross_entropy(m(x * 2), y)).backward()))
        passes[-1](x.double() + 1, y)
    for p, q in zip(*[m.parameters() for m in models], strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=1e-10)
    for kept in (True, False, False):  # the same functions under no_sync, and outside of it again
        for model, one in zip(models, passes, strict=True):
            with model.no_sync() if kept else nullcontext():
                one(x.double() + kept, y)
        for p, q in zip(*[m.parameters() for m in models], strict=True):
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=1e-10)
    branches = DistributedDataParallel(made(Branches))
    compiled = lucid.compile(lambda x: branches(x, 0).sum().backward())
    refused(lambda: compiled(lucid.ones(1, 2)), dist.DistributedError, "c.weight")
    models[0].module[0].bias.register_hook(lambda g: g * 2)
    refused(lambda: lucid.compile(steps_of(models[0]))(x.double(), y), NotImplementedError, "hooks")


def check_accumulation_in_compiled_steps():
    def step_of(model):
        optimizer = lucid.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            for i in range(2):  # two updates, each of three batches, of which the last one exchanges
                optimizer.zero_grad()
                with model.no_sync():
                    for k in range(2):
                        F.cross_entropy(model(x + i + k), y).backward()
                F.cross_entropy(model(x - i), y).backward()
                optimizer.step()
            with model.no_sync():
                first = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            (first + F.cross_entropy(model(x * 2), y)).backward()

        return step

    models = [DistributedDataParallel(made(mlp).double()) for _ in range(2)]
    x, y = data((BATCH, 6), 3, RANK)
    for _ in range(2):
        for step in (step_of(models[0]), lucid.compile(step_of(models[1]))):
            step(x.double(), y)
        for p, q in zip(*[m.parameters() for m in models], strict=True):
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=1e-10)
            np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), atol=1e-10)


def check_hooks_of_communication_in_compiled_steps():
    def halves(state, bucket):
        bucket.buffer().mul_(state)
        return dist.all_reduce(bucket.buffer(), async_op=True)

    for state, hook in ((None, bf16_compress_hook), (None, allreduce_hook), (0.5, halves)):
        models = [DistributedDataParallel(made(mlp).double()) for _ in range(2)]
        for model in models:
            model.register_comm_hook(state, hook)
        eager, fast = steps_of(models[0]), lucid.compile(steps_of(models[1]))
        for i in range(3):
            x, y = data((BATCH, 6), 3, 10 * i + RANK)
            np.testing.assert_allclose(fast(x.double(), y).item(), eager(x.double(), y).item(), rtol=1e-9)
        for p, q in zip(*[m.parameters() for m in models], strict=True):
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), atol=1e-10)


for name, check in list(globals().items()):
    if name.startswith("check_"):
        check()
        dist.barrier()
print(f"rank {RANK} is well")
dist.destroy_process_group()
