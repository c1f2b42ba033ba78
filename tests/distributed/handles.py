"""Handles, objects and differing calls, between several processes."""

import threading
import time

import lucid
import lucid.distributed as dist
from lucid.distributed.engines import mpi

dist.init_process_group(timeout=60)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def raises(kind, part, call, *args, **options):
    try:
        call(*args, **options)
    except kind as error:
        assert all(p in str(error) for p in ([part] if isinstance(part, str) else part)), error
    else:
        raise AssertionError(f"nothing was raised where {part} was expected")


# Many under way, large and small in turn, and one that is waited for before those started earlier.
tensors = [lucid.full((n,), float(RANK + 1)) for n in (1 << 18, 3, 1 << 18, 3, 3, 1 << 17)]
works = [dist.all_reduce(t, async_op=True) for t in tensors]
x = lucid.ones(1)
dist.all_reduce(x)
assert x.item() == SIZE
for work in reversed(works):
    assert work.wait() and work.is_completed() and work.exception() is None
assert all((t == SIZE * (SIZE + 1) / 2).all() for t in tensors)

# A mean and a tensor with gaps are right once the handle says so.
x = lucid.full((5, 4), float(RANK))[:, ::2]
work = dist.all_reduce(x, "mean", async_op=True)
work.wait()
assert x.flatten().tolist() == [(SIZE - 1) / 2] * 10

# Messages in both directions at once, and several with tags in another order.
a, b = lucid.full((1 << 18,), float(RANK)), lucid.zeros(1 << 18)
to, sender = (RANK + 1) % SIZE, (RANK - 1) % SIZE
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, a, to), dist.P2POp(dist.irecv, b, sender)]):
    work.wait()
assert (b == sender).all()
sent = [dist.isend(lucid.tensor([tag]), to, tag=tag) for tag in (1, 2)]
got = [lucid.tensor([0]) for _ in range(2)]
received = [dist.irecv(g, sender, tag=tag) for g, tag in zip(got, (2, 1), strict=True)]
assert [w.result() for w in received] == [sender] * 2 and [g.item() for g in got] == [2, 1]
for work in sent:
    work.wait()

# More elements than one call takes.
mpi.MOST = 1000
for n in (1000, 2500):
    x = lucid.full((n,), float(RANK))
    dist.all_reduce(x, "max")
    assert (x == SIZE - 1).all()
    dist.broadcast(x.fill_(RANK), 1)
    assert (x == 1).all()
    dist.reduce(x, 0)
    assert (x == (SIZE if RANK == 0 else 1)).all()
mpi.MOST = 1 << 30

# A large message moves on while nobody waits for it.
if RANK < 2:
    a, b = lucid.full((1 << 20,), float(RANK)), lucid.zeros(1 << 20)
    received, sent = dist.irecv(b, 1 - RANK), dist.isend(a, 1 - RANK)
    end = time.monotonic() + 30
    while RANK == 0 and b[-1] != 1 and time.monotonic() < end:  # without a call of MPI
        time.sleep(0.01)
    assert RANK == 1 or b[-1] == 1
    sent.wait()
    received.wait()
    assert (b == 1 - RANK).all()

# Two threads, each with a group of its own.
groups = [dist.new_group() for _ in range(2)]
sums = [lucid.ones(1 << 16) for _ in groups]


def reduce_often(x, group):
    for _ in range(5):
        dist.all_reduce(x, "mean", group=group)


threads = [threading.Thread(target=reduce_often, args=pair) for pair in zip(sums, groups, strict=True)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all((s == 1).all() for s in sums)

# Objects.
mine = {"rank": RANK, 2: ("é" * RANK, None, [True, 1.5, 2j]), "x": lucid.full((RANK, 2), RANK, dtype=lucid.bfloat16)}
everyone = [None] * SIZE
dist.all_gather_object(everyone, mine)
assert [e["rank"] for e in everyone] == list(range(SIZE)) and everyone[1][2] == ("é", None, [True, 1.5, 2j])
assert everyone[-1]["x"].dtype == lucid.bfloat16 and everyone[-1]["x"].tolist() == [[SIZE - 1.0] * 2] * (SIZE - 1)
some = ["a", lucid.ones(2)] if RANK == 1 else [None, None]
dist.broadcast_object_list(some, src=1)
assert some[0] == "a" and some[1].tolist() == [1, 1]
found = [None] * SIZE if RANK == 0 else None
dist.gather_object("x" * RANK, found)
assert found is None or found == ["x" * r for r in range(SIZE)]
out = [None]
dist.scatter_object_list(out, [list(range(r)) for r in range(SIZE)] if RANK == 0 else None)
assert out == [list(range(RANK))]
if RANK == 0:
    dist.send_object_list([1, "two"], dst=1)
if RANK == 1:
    pair = [None, None]
    assert dist.recv_object_list(pair) == 0 and pair == [1, "two"]
raises(TypeError, "hold no function", dist.all_gather_object, everyone, raises)

# What is refused before anything is sent.
raises(ValueError, "rank 9 is not in", dist.broadcast, x, 9)
raises(TypeError, "expected a tensor, not list", dist.all_reduce, [1.0])
raises(TypeError, "have no min", dist.all_reduce, lucid.ones(1, dtype=lucid.complex64), "min")
raises(TypeError, "have no mean", dist.all_reduce, lucid.tensor([1]), "mean")
raises(ValueError, "no reduction 'median'", dist.all_reduce, x, "median")
raises(ValueError, "times as many elements", dist.all_gather_into_tensor, lucid.zeros(5), lucid.zeros(2))
raises(TypeError, "one type", dist.all_gather_into_tensor, lucid.zeros(2 * SIZE), lucid.zeros(2, dtype=lucid.float64))
raises(ValueError, f"list of {SIZE} tensors", dist.all_gather, [lucid.zeros(1)], lucid.zeros(1))
raises(ValueError, "split_sizes", dist.all_to_all_single, lucid.zeros(7), lucid.zeros(7), [1] * SIZE, [1] * SIZE)
raises(ValueError, "tag", dist.send, x, to, tag=-1)
raises(RuntimeError, "has a history", dist.irecv, lucid.ones(1, requires_grad=True) * 2)
raises(RuntimeError, "expanded", dist.all_reduce, lucid.ones(1).expand(3))
raises(ValueError, "differ from each other", dist.new_group, [0, 0])

# A message of another length, and one that never comes.
if RANK == 0:
    dist.send(lucid.zeros(2), 1)
if RANK == 1:
    raises(dist.DistributedError, "rank 0 sent 2 elements", dist.recv, lucid.zeros(3), 0)

# Debug mode: every member is told what each one called.
debug = dist.new_group()
debug.debug = True
y = lucid.ones(RANK + 1)
parts = [f"rank {r}: all_reduce(float32[{r + 1}], sum)" for r in range(SIZE)]
raises(dist.DistributedError, parts, dist.all_reduce, y, group=debug)
if RANK == 0:
    raises(dist.DistributedError, ["rank 0: barrier()", "rank 1: broadcast(float32[1], src=1)"], dist.barrier, debug)
else:
    raises(dist.DistributedError, ["rank 0: barrier()"], dist.broadcast, lucid.ones(1), 1, group=debug)
rows = [1 + (RANK == 0)] * SIZE
raises(
    dist.DistributedError, "all_to_all_single", dist.all_to_all_single,
    lucid.zeros(SIZE), lucid.zeros(sum(rows)), [1] * SIZE, rows, group=debug,
)  # fmt: skip
dist.all_to_all_single(lucid.zeros(SIZE), lucid.zeros(SIZE), [1] * SIZE, [1] * SIZE, group=debug)
dist.all_reduce(z := lucid.ones(2), group=debug)
assert z.tolist() == [SIZE] * 2

# The one who waits says for whom.
dist.monitored_barrier()
if RANK == 0:
    raises(dist.DistributedError, "[1]" if SIZE == 2 else "1", dist.monitored_barrier, debug, timeout=0.2)
dist.barrier()
if RANK == SIZE - 1:
    work = dist.irecv(lucid.zeros(1), 0, tag=7)
    raises(dist.DistributedError, ["waited 0.2 s in recv(float32[1], src=0, tag=7)"], work.wait, 0.2)
dist.barrier()
if RANK == 0:
    dist.send(lucid.zeros(1), SIZE - 1, tag=7)
dist.barrier()
if RANK == SIZE - 1:
    from lucid.distributed import progress

    progress.abandoned.clear()  # what was given up above has come in the meantime
print(f"rank {RANK} is well")
