"""Tensor, sequence and pipeline parallel training against one process; run by several processes."""

import numpy as np

import lucid
import lucid.distributed as dist
from lucid import nn
from lucid.nn import functional as F
from lucid.nn.parallel import (
    DistributedDataParallel,
    Pipeline,
    SequenceParallelNorm,
    ShardedGradScaler,
    VocabParallelEmbedding,
    clip_grad_norm_,
    fully_shard,
    parallelize_module,
    regions,
    vocab_parallel_cross_entropy,
)

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
WORLD = dist.group.WORLD
WIDTH, VOCABULARY, LENGTH, BATCH = 8, 12, 4, 8


class Attention(nn.Module):
    """Of as many heads as there are in its part of the projection."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = [layer(x) for layer in (self.query, self.key, self.value)]
        heads = [p.reshape(*p.shape[:2], -1, 2).transpose(1, 2) for p in parts]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(*parts[0].shape))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        h = self.tokens(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


ROWS = {"blocks.*.attention.out": "row", "blocks.*.down": "row"}
COLUMNS = dict.fromkeys(
    [*(f"blocks.*.attention.{n}" for n in ("query", "key", "value")), "blocks.*.up", "head"], "column"
)
NORMS = dict.fromkeys(["blocks.*.first", "blocks.*.second", "norm"], "sequence")


def made():
    lucid.manual_seed(5)
    return GPT().double()


def data(step):
    rng = np.random.default_rng(step)
    shape = (BATCH, LENGTH)
    return lucid.tensor(rng.integers(0, VOCABULARY, shape)), lucid.tensor(rng.integers(0, VOCABULARY, shape))


def trained(model, loss_of, part=slice(None)):
    optimizer, losses = lucid.optim.AdamW(model.parameters(), lr=0.01), []
    for step in range(3):
        x, y = data(step)
        optimizer.zero_grad()
        loss = loss_of(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def plain_loss(logits, y):
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))


def whole(parameter, dim, group):
    if dim is None:
        everyone = lucid.empty(group.size(), *parameter.shape, dtype=parameter.dtype)
        dist.all_gather_into_tensor(everyone, parameter.detach(), group)
        assert bool((everyone == everyone[0]).all()), "processes must have the same to the last bit"
        return parameter.detach()
    return regions.joined(parameter.detach(), dim, group)


def compare(model, wanted, group, tolerance=1e-9):
    """Parameters of tensor parallel layers, put together, and those that all have alike."""
    dims = {"RowParallelLinear": {"weight": 1, "bias": None}}
    for name, module in model.named_modules():
        parallel = type(module).__name__
        for own, p in module._parameters.items():
            if p is None:
                continue
            dim = dims.get(parallel, {}).get(own, 0 if "Parallel" in parallel else None)
            key = f"{name}.{own}".replace("module.", "")
            found = whole(p, dim, group).numpy()
            np.testing.assert_allclose(found, wanted[key].numpy(), rtol=tolerance, atol=tolerance, err_msg=key)


def check_tensor_parallel():
    alone = made()
    wanted = trained(alone, plain_loss)
    for sequence in (False, True):
        plan = {**ROWS, **COLUMNS, "tokens": "vocabulary", **(NORMS if sequence else {})}
        model = parallelize_module(made(), None, plan, sequence_parallel=sequence)
        assert isinstance(model.tokens, VocabParallelEmbedding) and model.head.weight.shape == (
            VOCABULARY // SIZE,
            WIDTH,
        )
        assert not sequence or isinstance(model.norm, SequenceParallelNorm)
        losses = trained(model, lambda logits, y: vocab_parallel_cross_entropy(logits, y))
        np.testing.assert_allclose(losses, wanted, rtol=1e-9)
        compare(model, alone.state_dict(), WORLD)
    try:
        parallelize_module(made(), None, {"nothing": "row"})
    except ValueError as error:
        assert "no layer 'nothing'" in str(error)


def check_mesh():
    mesh = dist.init_device_mesh("cpu", (SIZE // 2, 2), mesh_dim_names=("data", "tensor"))
    assert mesh.get_coordinate() == [RANK // 2, RANK % 2] and mesh.size() == SIZE
    assert list(mesh["tensor"].get_group().ranks) == [RANK // 2 * 2, RANK // 2 * 2 + 1]
    assert list(mesh.get_group("data").ranks) == list(range(RANK % 2, SIZE, 2))
    alone = made()
    wanted = trained(alone, plain_loss)
    tensor, data_group = mesh.get_group("tensor"), mesh.get_group("data")
    model = parallelize_module(made(), mesh["tensor"], {**ROWS, **COLUMNS, "tokens": "vocabulary"})
    ddp = DistributedDataParallel(model, process_group=data_group)
    losses = lucid.tensor(
        trained(
            ddp,
            lambda logits, y: vocab_parallel_cross_entropy(logits, y, tensor),
            slice(data_group.rank(), None, data_group.size()),
        )
    ).double()
    dist.all_reduce(losses, "mean", data_group)
    np.testing.assert_allclose(losses.numpy(), wanted, rtol=1e-6)
    compare(model, alone.state_dict(), tensor)


def check_parts_of_what_is_alike():
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.standard_normal((3, 2 * SIZE)), requires_grad=True)
    part = regions.split(x, -1, WORLD)
    np.testing.assert_array_equal(part.detach().numpy(), x.detach().numpy()[:, 2 * RANK : 2 * RANK + 2])
    again = regions.joined(part**2, -1, WORLD)
    np.testing.assert_array_equal(again.detach().numpy(), x.detach().numpy() ** 2)
    weights = lucid.tensor(rng.standard_normal(x.shape))
    (again * weights).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (x.detach() * weights).numpy())


def check_pipeline():
    def layers():
        lucid.manual_seed(1)
        return nn.Sequential(
            nn.Embedding(VOCABULARY, WIDTH),
            *[Block() for _ in range(3)],
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, VOCABULARY),
        ).double()

    alone = layers()
    wanted = trained(alone, plain_loss)
    for schedule in ("1f1b", "gpipe"):
        pipeline = Pipeline(layers(), plain_loss, microbatches=BATCH // 2, schedule=schedule)
        optimizer, losses = lucid.optim.AdamW(pipeline.parameters(), lr=0.01), []
        for step in range(3):
            optimizer.zero_grad()
            losses.append(pipeline.step(*data(step)).item())
            optimizer.step()
        np.testing.assert_allclose(losses, wanted, rtol=1e-6)
        bound = BATCH // 2 if schedule == "gpipe" else min(SIZE - RANK, BATCH // 2)
        assert pipeline.most_alive == bound, (schedule, pipeline.most_alive, bound)
        state = alone.state_dict()
        for key, value in pipeline.module.state_dict().items():
            np.testing.assert_allclose(value.numpy(), state[key].numpy(), rtol=1e-9, atol=1e-9, err_msg=key)
        x = data(0)[0]
        np.testing.assert_allclose(pipeline(x).numpy(), alone(x).detach().numpy(), rtol=1e-7, atol=1e-9)


def check_scaler_and_norm_of_parts():
    lucid.manual_seed(0)
    model, alone = fully_shard(nn.Linear(3, 5)), nn.Linear(3, 5)
    with lucid.no_grad():
        from lucid.nn.parallel import unsharded_state_dict

        alone.load_state_dict(unsharded_state_dict(model))
    x = lucid.ones(2, 3)
    for m in (model, alone):
        (m(x) ** 2).sum().backward()
    wanted = nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
    copies = [p.grad.clone() for p in model.parameters()]
    for clip in (clip_grad_norm_, nn.utils.clip_grad_norm_):  # the second knows of parts by itself
        for p, gradient in zip(model.parameters(), copies, strict=True):
            p.grad = gradient.clone()
        np.testing.assert_allclose(clip(model.parameters(), 0.5).item(), wanted.item(), rtol=1e-5)
    whole = nn.Linear(1, 2)  # beside parts, what all have whole counts once
    for p in whole.parameters():
        p.grad = lucid.full_like(p, 3.0)
    for p, gradient in zip(model.parameters(), copies, strict=True):
        p.grad = gradient.clone()
    both = nn.utils.clip_grad_norm_([*whole.parameters(), *model.parameters()], 1e9)
    np.testing.assert_allclose(both.item() ** 2, wanted.item() ** 2 + 4 * 9, rtol=1e-5)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    for optimizer in (lucid.optim.Adafactor, lucid.optim.LBFGS, lucid.optim.Muon):
        try:
            optimizer([model.weight])
        except ValueError as error:
            assert "whole parameters" in str(error), error
        else:
            raise AssertionError(f"{optimizer.__name__} took a part")
    rows = -(-5 // SIZE)
    np.testing.assert_allclose(
        model.weight.grad.numpy(), alone.weight.grad[RANK * rows : (RANK + 1) * rows].numpy(), rtol=1e-4, atol=1e-7
    )
    optimizer = lucid.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().clone()
    if RANK == 0:
        model.weight.grad[0, 0] = float("nan")
    for scaler in (ShardedGradScaler("cpu", init_scale=8.0), lucid.amp.GradScaler("cpu", init_scale=8.0)):
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 4.0 and bool((model.weight == before).all())


for name, check in list(globals().items()):
    if name.startswith("check_"):
        check()
        dist.barrier()
print(f"rank {RANK} is well")
dist.destroy_process_group()
