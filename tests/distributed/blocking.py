"""Every collective on every type, against what NumPy says of the same tensors; run by several processes."""

import functools

import numpy as np

import lucid
import lucid.distributed as dist
from lucid.core.dtypes import ALL

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
NUMPY = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
SHAPES = [(3,), (), (0,), (200, 300)]


def made(rank, shape, dtype, seed=0):
    """What the process of a rank has: small numbers, so that every order gives the same."""
    rng = np.random.default_rng([rank, seed, *shape])
    values = rng.integers(0, 4, shape)
    if dtype.is_complex:
        values = values + 1j * rng.integers(0, 4, shape)
    return lucid.tensor(values, dtype=dtype)


def array(tensor):
    wide = tensor.to(lucid.float64) if tensor.dtype.is_floating_point else tensor
    return wide.numpy()


def everyone(shape, dtype, seed=0):
    return [array(made(r, shape, dtype, seed)) for r in range(SIZE)]


def same(tensor, wanted):
    np.testing.assert_array_equal(array(tensor), np.asarray(wanted).reshape(tensor.shape))


def strided(tensor):
    """The same elements with gaps between them, in another order."""
    room = lucid.zeros(*(2 * n for n in tensor.shape), dtype=tensor.dtype)
    part = room.T[tuple(slice(None, None, 2) for _ in tensor.shape)] if tensor.ndim else room
    part = part.T if tensor.ndim > 1 else part
    part.copy_(tensor)
    assert tensor.numel() < 2 or not part.is_contiguous()
    return part


def reductions(dtype):
    if dtype.is_complex:
        return ["sum", "prod"]
    return list(NUMPY)


def check_reductions(dtype, shape, form):
    for op in reductions(dtype):
        combine = NUMPY[op]
        wanted = functools.reduce(combine, everyone(shape, dtype))
        x = form(made(RANK, shape, dtype))
        dist.all_reduce(x, op)
        same(x, wanted)
        x = form(made(RANK, shape, dtype))
        dist.reduce(x, SIZE - 1, op)
        same(x, wanted if RANK == SIZE - 1 else array(made(RANK, shape, dtype)))
        whole = form(made(RANK, (SIZE, *shape), dtype))
        out = form(lucid.zeros(shape, dtype=dtype))
        dist.reduce_scatter_tensor(out, whole, op)
        reduced = functools.reduce(combine, everyone((SIZE, *shape), dtype))
        same(out, reduced[RANK])
        dist.reduce_scatter(out.zero_(), list(whole), op)
        same(out, reduced[RANK])


def check_moves(dtype, shape, form):
    x = form(made(RANK, shape, dtype))
    before, all_of = array(x).copy(), everyone(shape, dtype)
    dist.broadcast(x, SIZE - 1)
    same(x, all_of[-1])
    x = form(made(RANK, shape, dtype))
    parts = [form(lucid.zeros(shape, dtype=dtype)) for _ in range(SIZE)]
    dist.all_gather(parts, x)
    for part, wanted in zip(parts, all_of, strict=True):
        same(part, wanted)
    whole = form(lucid.zeros((SIZE, *shape), dtype=dtype))
    dist.all_gather_into_tensor(whole, x)
    same(whole, np.stack(all_of))
    same(x, before)
    for part in parts:
        part.zero_()
    dist.gather(x, parts if RANK == 0 else None, dst=0)
    if RANK == 0:
        for part, wanted in zip(parts, all_of, strict=True):
            same(part, wanted)
    dist.scatter(x, parts if RANK == 0 else None, src=0)
    same(x, before)
    rows = everyone((SIZE, *shape), dtype, seed=1)
    out = form(lucid.zeros((SIZE, *shape), dtype=dtype))
    dist.all_to_all_single(out, form(made(RANK, (SIZE, *shape), dtype, seed=1)))
    same(out, np.stack([rows[r][RANK] for r in range(SIZE)]))
    outs = [form(lucid.zeros(shape, dtype=dtype)) for _ in range(SIZE)]
    dist.all_to_all(outs, list(made(RANK, (SIZE, *shape), dtype, seed=1)))
    for r, part in enumerate(outs):
        same(part, rows[r][RANK])
    to, sender = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    sent = dist.isend(form(made(RANK, shape, dtype)), to)
    assert dist.recv(x, sender) == sender
    sent.wait()
    same(x, all_of[sender])


for dtype in ALL if SIZE == 2 else ALL[::5]:  # all types are for two processes, which take less time
    for shape in SHAPES if dtype.name in ("float32", "bfloat16", "complex128", "bool") else SHAPES[:1]:
        for form in (lambda t: t, strided):
            check_reductions(dtype, shape, form)
            check_moves(dtype, shape, form)

# Sizes that differ between members.
parts = [lucid.zeros(r) for r in range(SIZE)]
dist.all_gather(parts, lucid.full((RANK,), float(RANK)))
assert [p.tolist() for p in parts] == [[float(r)] * r for r in range(SIZE)]
out = lucid.zeros(RANK)
dist.reduce_scatter(out, [lucid.full((r,), float(r)) for r in range(SIZE)])
assert out.tolist() == [float(RANK * SIZE)] * RANK
outs = [lucid.zeros(RANK) for _ in range(SIZE)]
dist.all_to_all(outs, [lucid.full((r,), float(RANK)) for r in range(SIZE)])
assert [o.tolist() for o in outs] == [[float(r)] * RANK for r in range(SIZE)]
out = lucid.zeros(SIZE * RANK, 2)
dist.all_to_all_single(out, lucid.full((sum(range(SIZE)), 2), float(RANK)), [RANK] * SIZE, list(range(SIZE)))
assert out[:, 0].tolist() == [float(r) for r in range(SIZE) for _ in range(RANK)]

# Means, bitwise reductions, and types that have neither.
x = lucid.tensor([1.0 + RANK])
dist.all_reduce(x, dist.ReduceOp.AVG)
assert x.item() == 1 + (SIZE - 1) / 2
x = lucid.tensor([1 << RANK])
dist.all_reduce(x, "bor")
assert x.item() == (1 << SIZE) - 1

# Groups.
evens = dist.new_group(list(range(0, SIZE, 2)))
if RANK % 2 == 0:
    x = lucid.tensor([float(RANK)])
    dist.all_reduce(x, group=evens)
    assert x.item() == sum(range(0, SIZE, 2)) and dist.get_rank(evens) == RANK // 2
    dist.broadcast(x.fill_(RANK), SIZE - 2, group=evens)
    assert x.item() == SIZE - 2
    dist.broadcast(x.fill_(RANK), group_src=0, group=evens)
    assert x.item() == 0
else:
    assert evens is dist.group.NON_GROUP_MEMBER and dist.get_rank(evens) == -1
own, made_groups = dist.new_subgroups(2)
x = lucid.tensor([RANK])
dist.all_reduce(x, group=own)
assert x.item() == 4 * (RANK // 2) + 1 and len(made_groups) == SIZE // 2

dist.barrier()
dist.destroy_process_group()
print(f"rank {RANK} is well")
