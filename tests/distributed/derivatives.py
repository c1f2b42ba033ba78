"""Derivatives of collectives, against finite differences of the sum of all losses; batches, programs, compiled steps."""

import numpy as np

import lucid
import lucid.distributed as dist
from lucid import func
from lucid.distributed import functional as F

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
RING = [(r, (r + 1) % SIZE) for r in range(SIZE)]
PAIR = dist.new_group(sorted({0, SIZE - 1}))
PAIRED = RANK in (0, SIZE - 1)

CASES = {
    "all_reduce": lambda x: F.all_reduce(x),
    "pmean": lambda x: F.pmean(x),
    "prod": lambda x: F.all_reduce(x, "prod"),
    "pmax": lambda x: F.pmax(x),
    "pmin": lambda x: F.pmin(x),
    "all_gather": lambda x: F.all_gather(x),
    "all_gather dim": lambda x: F.all_gather(x, -1),
    "reduce_scatter": lambda x: F.reduce_scatter(x),
    "reduce_scatter dim": lambda x: F.reduce_scatter(x, "mean", 1),
    "reduce_scatter max": lambda x: F.reduce_scatter(x, "max", 1),
    "all_to_all": lambda x: F.all_to_all(x),
    "all_to_all dims": lambda x: F.all_to_all(x, 0, 1),
    "ppermute": lambda x: F.ppermute(x, RING),
    "ppermute some": lambda x: F.ppermute(x, [(0, SIZE - 1)]),
    "broadcast": lambda x: F.broadcast(x, SIZE - 1),
    "reduce": lambda x: F.reduce(x, SIZE - 1),
    "gather": lambda x: F.gather(x, SIZE - 1),
    "scatter": lambda x: F.scatter(x, 0),
    "group": lambda x: F.all_reduce(x, group=PAIR) if PAIRED else x,
    "nn": lambda x: lucid.stack(dist.nn.all_gather(x)),
    "nn reduce_scatter": lambda x: dist.nn.reduce_scatter(x[0], list(x)),
    "nn all_to_all": lambda x: lucid.stack(dist.nn.all_to_all(list(x), list(x))),
    "nn all_to_all_single": lambda x: dist.nn.all_to_all_single(x, x, [1] * SIZE, [1] * SIZE),
    "in place": lambda x: all_reduced(x),
    "in place into": lambda x: gathered(x),
    "in place list": lambda x: listed(x),
}


def all_reduced(x):
    y = x * 1
    dist.all_reduce(y, "mean")
    return y


def gathered(x):
    y = lucid.zeros(SIZE, *x.shape, dtype=x.dtype)
    dist.all_gather_into_tensor(y, x)
    return y


def listed(x):
    parts = [lucid.zeros_like(x) for _ in range(SIZE)]
    dist.all_gather(parts, x)
    return lucid.stack(parts)


def values(*shape, seed=0):
    return lucid.tensor(np.random.default_rng([RANK, seed]).uniform(0.5, 1.5, shape))


def total(loss):
    out = loss.detach().clone()
    dist.all_reduce(out)
    return out.item()


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def check(name, op):
    x, t = values(SIZE, 2 * SIZE), values(SIZE, 2 * SIZE, seed=1)
    out = op(x)
    weights = values(*out.shape, seed=2)

    def loss(x):
        return (weights * op(x) ** 2).sum()

    # Reverse: each element of each member alone, by differences of the sum of all losses.
    gradient, step = func.grad(loss)(x), 1e-6
    for rank in range(SIZE):
        for i in (0, -1):
            moved = lucid.zeros_like(x)
            if rank == RANK:
                moved.view(-1)[i] = step
            change = (total(loss(x + moved)) - total(loss(x - moved))) / (2 * step)
            if rank == RANK:
                close(gradient.view(-1)[i], change, 1e-5)
    # The tape does the same.
    leaf = x.clone().requires_grad_()
    loss(leaf).backward()
    close(leaf.grad, gradient)
    # Forward, and the two together.
    primal, tangent = func.jvp(op, (x,), (t,))
    close(primal, out)
    close(tangent, (op(x + step * t) - op(x - step * t)) / (2 * step), 1e-5)
    _, pull = func.vjp(op, x)
    (pulled,) = pull(weights)
    close(total((pulled * t).sum()), total((weights * tangent).sum()))
    # Second order, of everything along t.
    _, second = func.jvp(func.grad(loss), (x,), (t,))
    close(second, (func.grad(loss)(x + step * t) - func.grad(loss)(x - step * t)) / (2 * step), 1e-4)
    # A batch is a loop, and so are its derivatives.
    batch = values(3, SIZE, 2 * SIZE, seed=3)
    if name not in ("in place into", "in place list"):  # whose outputs are no part of the batch
        close(func.vmap(op)(batch), lucid.stack([op(b) for b in batch]))
        close(func.vmap(func.grad(loss))(batch), lucid.stack([func.grad(loss)(b) for b in batch]))
        back = lucid.stack(list(batch.unbind(0)), 2)
        close(func.vmap(op, in_dims=2)(back), lucid.stack([op(b) for b in batch]))
    # Programs and compiled functions.
    close(func.make_graph(op)(x)(x + 1), op(x + 1))
    compiled = lucid.compile(func.grad(loss))
    close(compiled(x), gradient)
    close(compiled(x + 1), func.grad(loss)(x + 1))


for name, op in CASES.items():
    try:
        check(name, op)
    except Exception as error:
        error.add_note(f"in {name}")
        raise

# Values that are replicated: one loss, which all members compute of the same sum.
w = lucid.tensor([1.0, 2.0], dtype=lucid.float64)
share = lucid.full((2,), RANK + 1.0, dtype=lucid.float64)


def once(w):
    return (F.reduce_once(F.replicate(w) * share) ** 2).sum()


sums = SIZE * (SIZE + 1) / 2
close(func.grad(once)(w), 2 * w * sums**2)
close(func.hessian(once)(w), np.diag([2 * sums**2] * 2))

# Complex numbers and sixteen bits.
z = lucid.tensor([1 + 2j], requires_grad=True)
F.psum(z).abs().sum().backward()
close(z.grad, SIZE * np.array([1 + 2j]) / abs(1 + 2j), 1e-5)
h = lucid.ones(3, dtype=lucid.bfloat16, requires_grad=True)
F.psum(h).sum().backward()
assert h.grad.dtype == lucid.bfloat16 and h.grad.tolist() == [SIZE] * 3


# In a program nothing is dropped though nobody asks for it, and the order stays.
def unused(x):
    F.psum(x)
    F.broadcast(x * 2, 0)
    return x + 1


program = func.make_graph(unused)(lucid.ones(2))
named = [i.primitive.name for i in program.instructions]
assert named.index("all_reduce") < named.index("broadcast_from"), named
assert "exchanges world" in str(program), program
calls = dist.group.WORLD.calls
compiled = lucid.compile(unused)
assert compiled(lucid.ones(2)).tolist() == [2, 2] and compiled(lucid.zeros(2)).tolist() == [1, 1]
assert dist.group.WORLD.calls == calls + 4

# A whole training step, compiled: gradients are averaged in place, and parameters stay the same everywhere.
lucid.manual_seed(0)
model = lucid.nn.Linear(3, 1)
twin = lucid.nn.Linear(3, 1)
twin.load_state_dict(model.state_dict())


def step_of(model):
    optimizer = lucid.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, "mean")
        optimizer.step()
        return loss.detach()

    return step


eager, fast = step_of(model), lucid.compile(step_of(twin))
for i in range(3):
    x = lucid.tensor(np.random.default_rng([RANK, i]).normal(size=(4, 3)).astype(np.float32))
    close(eager(x), fast(x), 1e-5)
for p, q in zip(model.parameters(), twin.parameters(), strict=True):
    close(p.detach(), q.detach(), 1e-5)
    first = p.detach().clone()
    dist.broadcast(first, 0)
    assert (first == p).all()
print(f"rank {RANK} is well")
