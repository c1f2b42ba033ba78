"""Random programs of views and writes: the tape, the transforms and traced programs all agree with a rewrite in values.

Each program is run once on tensors, with views and in-place operations, and once on an explicit memory: every view is a
map from its elements to places in one flat vector, and a write puts new values there. Nothing of the library's views,
versions or histories takes part in the second run, so it is the reference for all of them.
"""

import random

import numpy as np
import pytest

import lucid
from lucid import autograd, func


class Memory:
    """A value that is kept as one flat vector; views are arrays of places in it."""

    def __init__(self, x):
        self.values = x.reshape(-1) * 1

    def read(self, places):
        return self.values[lucid.from_numpy(places.reshape(-1).copy())].reshape(places.shape)

    def write(self, places, new):
        index = lucid.from_numpy(places.reshape(-1).copy())
        self.values = self.values.index_copy(0, index, new.expand(places.shape).reshape(-1))


def view_steps(rng, shape):
    """A view for tensors, and the same for arrays of places."""
    n = len(shape)
    d = rng.randrange(n) if n else 0
    kind = rng.choice(("slice", "select", "transpose", "unfold", "strided", "diagonal", "unsqueeze", "flat", "window"))
    if kind == "strided" or not n:
        size, stride = ((2, 2), (1, 2)) if rng.random() < 0.5 else ((2,), (2,))
        return lambda x: x.as_strided(size, stride), ("strided", size, stride)
    if kind == "slice":
        index = (slice(None),) * d + (slice(rng.randrange(shape[d]), None, rng.choice((1, 2))),)
        return lambda x: x[index], lambda p: p[index]
    if kind == "select":
        k = rng.randrange(-shape[d], shape[d])
        return lambda x: x.select(d, k), lambda p: np.take(p, k, d)
    if kind == "transpose":
        e = rng.randrange(n)
        return lambda x: x.transpose(d, e), lambda p: p.swapaxes(d, e)
    if kind in ("unfold", "window"):
        step = rng.choice((1, 2)) if kind == "window" else shape[d]
        size = rng.randrange(1, shape[d] + 1) if kind == "window" else shape[d]
        return (
            lambda x: x.unfold(d, size, step),
            lambda p: np.moveaxis(
                np.stack([np.take(p, range(k, k + size), d) for k in range(0, shape[d] - size + 1, step)], d), d + 1, -1
            ),
        )
    if kind == "diagonal" and n > 1:
        e = (d + 1) % n
        return lambda x: x.diagonal(0, d, e), lambda p: p.diagonal(0, d, e)
    if kind == "flat":
        return lambda x: x.flatten() if x.ndim == 1 else x.unsqueeze(0).flatten(0, 1), lambda p: p
    return lambda x: x.unsqueeze(d), lambda p: np.expand_dims(p, d)


WRITES = {
    "mul_": (lambda x, o: x.mul_(o), lambda x, o: x * o),
    "add_": (lambda x, o: x.add_(o, alpha=0.5), lambda x, o: x + 0.5 * o),
    "sin_": (lambda x, o: x.sin_(), lambda x, o: x.sin()),
    "copy_": (lambda x, o: x.copy_(o), lambda x, o: o + 0 * x),
    "fill_": (lambda x, o: x.fill_(0.5), lambda x, o: 0 * x + 0.5),
    "own": (lambda x, o: x.mul_(x.flip(0) if x.ndim else x), lambda x, o: x * (x.flip(0) if x.ndim else x)),
    "item": (lambda x, o: x.__setitem__(..., o), lambda x, o: o + 0 * x),
}


def program(seed):
    """Two functions of x and o, a scalar: one with views and writes, and its rewrite."""
    rng = random.Random(seed)
    shape = rng.choice(((6,), (2, 3), (3, 2), (3, 3), (2, 2, 3)))
    steps, overlapping = [], [False]
    places = [np.arange(int(np.prod(shape))).reshape(shape)]
    for _ in range(rng.randrange(2, 7)):
        i = rng.randrange(len(places))
        if rng.random() < 0.55:
            see, where = view_steps(rng, places[i].shape)
            if isinstance(where, tuple):  # as_strided counts in memory: take it of the whole only, which has no gaps
                i, (_, size, stride) = 0, where
                found = np.lib.stride_tricks.as_strided(places[0], size, tuple(8 * s for s in stride))
            else:
                found = where(places[i])
            steps.append(("view", i, see))
            places.append(np.array(found))
            overlapping.append(len(np.unique(found)) < found.size or overlapping[i])
        elif not overlapping[i] and places[i].size:
            steps.append(("write", i, rng.choice(sorted(WRITES))))

    def viewed(x, o):
        made = [x * 1]
        for kind, i, how in steps:
            if kind == "view":
                made.append(how(made[i]))
            else:
                WRITES[how][0](made[i], o)
        return sum((k + 1) * (t * t * t).sum() for k, t in enumerate(made))

    def rewritten(x, o):
        memory = Memory(x)
        for kind, i, how in steps:
            if kind == "write":
                memory.write(places[i], WRITES[how][1](memory.read(places[i]), o))
        return sum((k + 1) * (memory.read(p) ** 3).sum() for k, p in enumerate(places))

    return viewed, rewritten, shape


@pytest.mark.parametrize("seeds", [range(k, k + 15) for k in range(0, 120, 15)], ids=str)
def test_programs_of_views_and_writes(seeds):
    for seed in seeds:
        viewed, rewritten, shape = program(seed)
        draw = np.random.default_rng(seed).normal
        xs, os = lucid.tensor(draw(size=(3, *shape))), lucid.tensor(draw(size=3))
        x, o, t = xs[0].clone(), os[0].clone(), lucid.tensor(draw(size=shape))
        both = (viewed, rewritten)

        def agree(*pair, seed=seed):
            a, b = (p.detach().numpy() for p in pair)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"program {seed}")

        def tape(f, x=x, o=o, t=t):
            x, o = x.clone().requires_grad_(), o.clone().requires_grad_()
            first, _ = autograd.grad(f(x, o), [x, o], create_graph=True, allow_unused=True)
            second = autograd.grad((first * t).sum(), [x], allow_unused=True)[0] if first.requires_grad else None
            return lucid.stack([first.detach(), lucid.zeros_like(x) if second is None else second.detach()])

        agree(viewed(x, o), rewritten(x, o))
        agree(*map(tape, both))
        agree(*[func.grad(f)(x, o) for f in both])
        agree(*[func.jvp(f, (x, o), (t, lucid.ones_like(o)))[1] for f in both])
        agree(*[func.jvp(func.grad(f), (x, o), (t, lucid.ones_like(o)))[1] for f in both])
        agree(*[func.vmap(f)(xs, os) for f in both])
        agree(*[func.vmap(func.grad(f), in_dims=(0, None))(xs, o) for f in both])
        agree(func.make_graph(viewed)(x, o)(xs[1], os[1]), rewritten(xs[1], os[1]))
        agree(func.grad(func.make_graph(viewed)(x, o))(xs[1], os[1]), func.grad(rewritten)(xs[1], os[1]))


# --- as_strided ---------------------------------------------------------------------------------


def test_as_strided_of_a_part_counts_in_elements_of_that_part():
    z = lucid.tensor(np.arange(6.0) + 1j * np.arange(10.0, 16.0))
    np.testing.assert_array_equal(z.real.as_strided((2,), (2,)).numpy(), [0, 1])
    np.testing.assert_array_equal(z.imag.as_strided((3,), (1,)).numpy(), [10, 1, 11])
    np.testing.assert_array_equal(z.imag.as_strided((2,), (1,), 3).numpy(), [11, 2])
    leaf = z.clone().requires_grad_()
    (leaf * 1).imag.as_strided((3,), (1,)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [1j, 1 + 1j, 0, 0, 0, 0])


def test_windows_know_where_they_begin():
    x = lucid.arange(8)
    windows = x[2:].unfold(0, 3, 1)
    assert (windows.storage_offset(), windows[1:].storage_offset(), windows[1:, 1].storage_offset()) == (2, 3, 4)
    assert windows.as_strided((2,), (1,)).tolist() == [2, 3]
    assert windows[1:, 1].as_strided((2,), (1,), 3).tolist() == [3, 4]
    assert lucid.zeros(3, dtype=lucid.bfloat16)[1:].unfold(0, 1, 1).storage_offset() == 1


def test_as_strided_inside_vmap_is_a_view_of_each_example():
    def written(x):
        y = x * 1
        part = y[1:]  # the examples of this lie apart
        seen = part.as_strided((2,), (2,))
        back = part.as_strided((2,), (1,), 0)  # offsets count from the beginning of the example
        y.mul_(3)
        seen.add_(1)
        return y, seen, back

    xs = lucid.tensor(np.arange(12.0).reshape(2, 6))
    each = [written(x) for x in xs]
    for got, *want in zip(func.vmap(written)(xs), *each, strict=True):
        np.testing.assert_array_equal(got.numpy(), np.stack([w.numpy() for w in want]))
    nested = func.vmap(func.vmap(written))(lucid.stack([xs, xs + 1]))[1]
    np.testing.assert_array_equal(nested[1, 0].numpy(), written(xs[0] + 1)[1].numpy())


def test_as_strided_beyond_a_view_reaches_its_base():
    x = lucid.arange(6.0, requires_grad=True)
    (x * 1)[2:4].as_strided((3,), (2,), 1).mul(lucid.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 1, 0, 10, 0, 100]
    with pytest.raises(RuntimeError, match="outside the memory"):
        lucid.arange(6)[2:4].as_strided((3,), (2,), 2)


def test_a_refused_as_strided_leaves_the_tensor_alone():
    x = lucid.arange(6.0)
    version = x._version
    with pytest.raises(RuntimeError, match="outside"):
        x.as_strided_((9,), (1,))
    assert (x.shape, x._version, x.tolist()) == ((6,), version, [0, 1, 2, 3, 4, 5])


# --- operands that overlap the target -----------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
def test_operands_that_share_memory_with_the_target(recorded):
    def run(write):
        leaf = lucid.tensor(np.arange(9.0).reshape(3, 3), requires_grad=recorded)
        x = leaf * 1
        write(x)
        return x.detach().numpy()

    start = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(run(lambda x: x.add_(x)), 2 * start)
    np.testing.assert_array_equal(run(lambda x: x.mul_(x.t())), start * start.T)
    np.testing.assert_array_equal(run(lambda x: x.sub_(x[0])), start - start[0])
    np.testing.assert_array_equal(run(lambda x: x.div_(x[:, 1:2])), start / start[:, 1:2])
    np.testing.assert_array_equal(run(lambda x: x[1:].copy_(x[:-1])), [[0, 1, 2], [0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(run(lambda x: x[:-1].copy_(x[1:])), [[3, 4, 5], [6, 7, 8], [6, 7, 8]])
    np.testing.assert_array_equal(run(lambda x: x.copy_(x.t())), start.T)
    np.testing.assert_array_equal(
        run(lambda x: x.__setitem__(slice(1, None), x[:-1])), [[0, 1, 2], [0, 1, 2], [3, 4, 5]]
    )
    np.testing.assert_array_equal(run(lambda x: x[0].addcmul_(x[1], x[2])), [[18, 29, 42], [3, 4, 5], [6, 7, 8]])


def test_refused_writes_change_nothing():
    x = lucid.arange(3)
    for write in (
        lambda: x.add_(0.5),
        lambda: x.mul_(lucid.ones(2, 3, dtype=lucid.int64)),
        lambda: x.copy_(lucid.zeros(4, dtype=lucid.int64)),
        lambda: x.div_(2),
        lambda: x.addcmul_(lucid.ones(3, dtype=lucid.int64), lucid.ones(2, dtype=lucid.int64)),
        lambda: x.index_add_(0, lucid.tensor([5]), lucid.ones(1, dtype=lucid.int64)),
        lambda: x.__setitem__(7, 1),
    ):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            write()
        assert (x.tolist(), x._version, x.shape) == ([0, 1, 2], 0, (3,))
