"""Writing inside vmap: into batched values, into tensors made inside, and never into tensors from outside."""

import numpy as np
import pytest

import lucid
from lucid.func import grad, jvp, vmap

rng = np.random.default_rng(1)
A = rng.standard_normal((4, 3))
B = rng.standard_normal((4, 3))
MASK = np.array([True, False, True])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values), **kwargs)


def zeros(*shape):
    return lucid.zeros(*shape, dtype=lucid.float64)


def fill_by_scalar(x, y):
    out = zeros(3)
    out[0] = x.sum()
    out[1:] += y[0]
    return out


def fill_by_scalar_ref(x, y):
    return np.array([x.sum(), y[0], y[0]])


def ones_in_place(x, y):
    out = lucid.ones(3, dtype=lucid.float64)
    out.mul_(x).add_(y, alpha=2).sin_()
    out += 1
    out **= 2
    return out


def ones_in_place_ref(x, y):
    return (np.sin(x + 2 * y) + 1) ** 2


def batched_in_place(x, y):
    z = x * 1
    z.mul_(y)
    z -= x
    z /= 2.0
    z.clamp_(-0.5, 0.5)
    z.neg_()
    return z


def batched_in_place_ref(x, y):
    return -np.clip((x * y - x) / 2, -0.5, 0.5)


def view_before_the_write(x, y):
    out = zeros(2, 3)
    row, column, flat, whole = out[1], out[:, 0], out.view(6), out.t()
    out[0] = x
    row += y
    column *= 2
    flat[5] = 7.0
    return lucid.cat([out.reshape(6), row, column, flat, whole.reshape(6)])


def view_before_the_write_ref(x, y):
    out = np.zeros((2, 3))
    out[0] = x
    out[1] += y
    out[:, 0] *= 2
    out[1, 2] = 7.0
    return np.concatenate([out.ravel(), out[1], out[:, 0], out.ravel(), out.T.ravel()])


def view_of_view(x, y):
    out = zeros(3, 2)
    part = out.t()[1]
    tail = part[1:]
    last = tail[1]
    tail.copy_(x[:2])
    last += y[0]
    part[0] = y[1]
    return lucid.cat([out.reshape(6), part, tail, last.reshape(1)])


def view_of_view_ref(x, y):
    out = np.zeros((3, 2))
    out[1:, 1] = x[:2]
    out[2, 1] += y[0]
    out[0, 1] = y[1]
    return np.concatenate([out.ravel(), out[:, 1], out[1:, 1], out[2:, 1]])


def chain(x, y):
    """Written through one view, read through another that was made of a third."""
    out = zeros(2, 2, 3)
    a = out[0]
    b = a[1]
    c = out.view(4, 3)[1]
    d = c[:2]
    b.add_(x)
    d *= y[:2]
    return lucid.cat([out.reshape(12), b, c, d])


def chain_ref(x, y):
    out = np.zeros((2, 2, 3))
    out[0, 1] = x
    out[0, 1, :2] *= y[:2]
    return np.concatenate([out.ravel(), out[0, 1], out[0, 1], out[0, 1, :2]])


def masks(x, y):
    out = zeros(3)
    view = out[1:]
    out[t(MASK)] = x[:2]
    out[t([1])] = y[0]
    out[[0, 2]] += y[1:]
    own = x * 1
    own[own > 0] = -1.0
    own.masked_fill_(y > 0, 5.0)
    return lucid.cat([out, view, own])


def masks_ref(x, y):
    out = np.zeros(3)
    out[MASK] = x[:2]
    out[1] = y[0]
    out[[0, 2]] += y[1:]
    own = np.where(y > 0, 5.0, np.where(x > 0, -1.0, x))
    return np.concatenate([out, out[1:], own])


def batched_places(x, y):
    """Where to write differs between examples."""
    out, order = zeros(3), x.argsort()
    out[order] = y
    out[order[0]] += 10.0
    picked = x[order[:2]]
    out.scatter_(0, order[2:], picked[:1])
    return lucid.cat([out, picked])


def batched_places_ref(x, y):
    out, order = np.zeros(3), np.argsort(x)
    out[order] = y
    out[order[0]] += 10.0
    out[order[2]] = x[order[0]]
    return np.concatenate([out, x[order[:2]]])


def swaps(x, y):
    z = x.clone()
    z[0], z[2] = z[2].clone(), z[0].clone()
    z[1] = x[0] * x[2]
    return z


def swaps_ref(x, y):
    return np.array([x[2], x[0] * x[2], x[0]])


def loop_fill(x, y):
    out = zeros(3, 3)
    for i in range(3):
        for j in range(3):
            out[i, j] = x[i] * y[j]
    return out


def loop_fill_ref(x, y):
    return np.outer(x, y)


def empty_then_copied(x, y):
    out = lucid.empty(3, dtype=lucid.float64)
    out.copy_(x)
    out.fill_(2.0)
    out[:2] = y[1:]
    return out


def empty_then_copied_ref(x, y):
    return np.array([y[1], y[2], 2.0])


def made_like(x, y):
    out = lucid.zeros_like(x)
    other = lucid.ones_like(out)
    out[0] = y[0]
    other -= x
    return lucid.cat([out, other])


def made_like_ref(x, y):
    return np.concatenate([[y[0], 0, 0], 1 - x])


WRITERS = [
    fill_by_scalar, ones_in_place, batched_in_place, view_before_the_write, view_of_view, chain, masks, batched_places,
    swaps, loop_fill, empty_then_copied, made_like,
]  # fmt: skip


def reference(f):
    return globals()[f"{f.__name__}_ref"]


writers = pytest.mark.parametrize("f", WRITERS, ids=lambda f: f.__name__)


@writers
@pytest.mark.parametrize("how", [{}, {"chunk_size": 3}], ids=["whole", "chunks"])
def test_each_example_is_written_for_itself(f, how):
    got = vmap(f, **how)(t(A), t(B))
    np.testing.assert_allclose(
        got.numpy(), np.stack([reference(f)(x, y) for x, y in zip(A, B, strict=True)]), rtol=1e-12
    )


@writers
@pytest.mark.parametrize("in_dims", [(0, None), (None, 0)], ids=str)
def test_with_one_shared_argument(f, in_dims):
    xs, ys = (A, B[0]) if in_dims[0] == 0 else (A[0], B)
    got = vmap(f, in_dims=in_dims)(t(xs), t(ys))
    pairs = [(x, ys) for x in xs] if in_dims[0] == 0 else [(xs, y) for y in ys]
    np.testing.assert_allclose(got.numpy(), np.stack([reference(f)(x, y) for x, y in pairs]), rtol=1e-12)


@writers
def test_in_two_vmaps(f):
    got = vmap(lambda x: vmap(lambda y: f(x, y))(t(B)))(t(A))
    want = np.stack([np.stack([reference(f)(x, y) for y in B]) for x in A])
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    both = vmap(vmap(f))(t(np.stack([A, B])), t(np.stack([B, A])))
    want = np.stack([np.stack([reference(f)(x, y) for x, y in zip(u, v, strict=True)]) for u, v in ((A, B), (B, A))])
    np.testing.assert_allclose(both.numpy(), want, rtol=1e-12)


def numeric(f, x, y):
    """The gradient of the weighted sum of f by x and y."""
    point, eps = np.concatenate([x, y]), 1e-6

    def total(p):
        out = reference(f)(p[:3], p[3:]).ravel()
        return (out * np.cos(np.arange(out.size))).sum()

    return np.array([(total(point + eps * e) - total(point - eps * e)) / (2 * eps) for e in np.eye(6)])


def weighted(f):
    def total(p):
        out = f(p[:3], p[3:]).reshape(-1)
        return (out * lucid.arange(out.numel(), dtype=lucid.float64).cos()).sum()

    return total


@writers
@pytest.mark.parametrize("order", ["vmap(grad)", "grad(vmap)", "vmap(jvp)", "jvp(vmap)", "vmap(backward)"])
def test_derivatives_of_writes(f, order):
    points = t(np.concatenate([A, B], axis=1))
    want = np.stack([numeric(f, x, y) for x, y in zip(A, B, strict=True)])
    if order == "vmap(grad)":
        got = vmap(grad(weighted(f)))(points)
    elif order == "grad(vmap)":
        got = grad(lambda p: vmap(weighted(f))(p).sum())(points)
    elif order == "vmap(backward)":

        def by_hand(p):
            leaf = p.clone().requires_grad_()
            weighted(f)(leaf).backward()
            return leaf.grad

        got = vmap(by_hand)(points)
    elif order == "vmap(jvp)":
        got = vmap(lambda p: jvp(weighted(f), (p,), (p * 0 + 1,))[1])(points)
        want = want.sum(1)
    else:
        got = jvp(vmap(weighted(f)), (points,), (lucid.ones_like(points),))[1]
        want = want.sum(1)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-7)


# Tensors made between two vmaps.


def test_a_tensor_made_in_the_middle_gets_the_outer_batch():
    def outer(x):
        middle = zeros(3)
        view = middle[1:]
        middle += x
        return vmap(lambda y: middle * y + view.sum())(t(B))

    want = np.stack([np.stack([x * y + x[1:].sum() for y in B]) for x in A])
    np.testing.assert_allclose(vmap(outer)(t(A)).numpy(), want, rtol=1e-12)


def test_a_tensor_made_in_the_middle_takes_no_inner_values():
    def outer(x):
        middle = zeros(3) + x

        def inner(y):
            middle[0] = y[0]
            return middle * 1

        with pytest.raises(RuntimeError, match="made outside"):
            vmap(inner)(t(B))
        return middle

    np.testing.assert_allclose(vmap(outer)(t(A)).numpy(), A)


def test_a_tensor_made_in_the_middle_takes_outer_values_inside():
    """A write of what only the outer vmap follows is possible from within the inner one."""

    def outer(x):
        middle = zeros(3)

        def inner(y):
            middle[0] = x[0]
            return middle + y

        out = vmap(inner)(t(B))
        return out + middle

    want = np.stack([np.stack([2 * np.array([x[0], 0, 0]) + y for y in B]) for x in A])
    np.testing.assert_allclose(vmap(outer)(t(A)).numpy(), want, rtol=1e-12)


def test_made_inside_both_written_by_both():
    def outer(x):
        def inner(y):
            out = zeros(2, 3)
            row = out[1]
            out[0] = x
            row += y
            out[0] *= y[0]
            return out

        return vmap(inner)(t(B))

    want = np.stack([np.stack([np.stack([x * y[0], y]) for y in B]) for x in A])
    np.testing.assert_allclose(vmap(outer)(t(A)).numpy(), want, rtol=1e-12)


# Tensors from outside.

OUTSIDE_WRITES = {
    "add_": lambda c, x: c.add_(x),
    "+=": lambda c, x: c.__iadd__(x),
    "setitem": lambda c, x: c.__setitem__(0, x[0]),
    "slice": lambda c, x: c.__setitem__(slice(1, None), x[1:]),
    "mask": lambda c, x: c.__setitem__(t(MASK), x[:2]),
    "integers": lambda c, x: c.__setitem__([0, 1], x[:2]),
    "view": lambda c, x: c[1:].mul_(x[1:]),
    "view of view": lambda c, x: c.view(1, 3)[0][1:].mul_(x[1:]),
    "copy_": lambda c, x: c.copy_(x),
    "index_add_": lambda c, x: c.index_add_(0, lucid.tensor([0]), x[:1]),
    "scatter_": lambda c, x: c.scatter_(0, lucid.tensor([0]), x[:1]),
    "masked_fill_": lambda c, x: c.masked_fill_(x > 0, 1.0),
    "detached": lambda c, x: c.detach().add_(x),
}


@pytest.mark.parametrize("name", OUTSIDE_WRITES)
def test_tensors_from_outside_are_refused_and_stay(name):
    outside, view = t([1.0, 2.0, 3.0]), None
    view = outside[1:]
    write = OUTSIDE_WRITES[name]
    with pytest.raises(RuntimeError, match=r"(?s)test_func_vmap_writes\.py:\d+.*vmap.*made outside"):
        vmap(lambda x: write(outside, x) and x)(t(A))
    assert type(outside) is lucid.Tensor and outside.tolist() == [1.0, 2.0, 3.0] and view.tolist() == [2.0, 3.0]
    outside[0] = 5.0
    view += 1.0
    assert outside.tolist() == [5.0, 3.0, 4.0]


@pytest.mark.parametrize("name", OUTSIDE_WRITES)
def test_shared_arguments_are_refused_and_stay(name):
    shared = t([1.0, 2.0, 3.0])
    write = OUTSIDE_WRITES[name]
    with pytest.raises(RuntimeError, match="made outside"):
        vmap(lambda x, c: write(c, x) and x, in_dims=(0, None))(t(A), shared)
    assert type(shared) is lucid.Tensor and shared.tolist() == [1.0, 2.0, 3.0]


def test_tensors_from_outside_take_what_is_no_example():
    outside = t([1.0, 2.0])

    def f(x):
        outside.add_(1.0)
        return x + outside[0]

    got = vmap(f)(t([10.0, 20.0]))
    assert got.tolist() == [12.0, 22.0] and outside.tolist() == [2.0, 3.0]


def test_writing_to_an_argument_writes_to_the_callers_tensor():
    """As it does without vmap."""
    x = t(A)
    got = vmap(lambda row: row.mul_(2.0))(x)
    np.testing.assert_allclose(x.numpy(), 2 * A)
    np.testing.assert_allclose(got.numpy(), 2 * A)
    x = t(A)
    vmap(lambda row, other: row[1:].copy_(other[:2]))(x, t(B))
    np.testing.assert_allclose(x.numpy(), np.concatenate([A[:, :1], B[:, :2]], axis=1))


def test_writing_to_a_batch_along_another_dimension():
    x = t(A.T.copy())
    vmap(lambda row: row.mul_(row[0].clone()), in_dims=1)(x)
    np.testing.assert_allclose(x.numpy(), (A * A[:, :1]).T)


def test_a_detached_tensor_follows():
    def f(x):
        out = zeros(3)
        apart = out.detach()
        out += x
        return apart + 1

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), A + 1)


def test_in_place_under_grad_inside_is_checked():
    def f(x):
        y = x.exp()
        y.mul_(2.0)
        return y.sum()

    with pytest.raises(RuntimeError, match="overwritten by an in-place operation"):
        vmap(grad(f))(t(A))
    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 2 * np.exp(A).sum(1))


def test_a_leaf_inside_is_not_written():
    def f(x):
        leaf = x.clone().requires_grad_()
        leaf.add_(1.0)
        return leaf

    with pytest.raises(RuntimeError, match="leaf"):
        vmap(f)(t(A))


F = lucid.nn.functional
# The batching rules of these move the batch away from the front.
RESULTS = {
    "embedding": lambda x, y: F.embedding(lucid.tensor([2, 0, 1]), x),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, training=True),
    "conv1d": lambda x, y: F.conv1d(y[:, None], x[:, None])[0],
    "index_add": lambda x, y: y.index_add(0, lucid.tensor([1, 1, 0]), x),
    "stack": lambda x, y: lucid.stack([y, x]),
    "cumsum": lambda x, y: x.cumsum(0),
    "sum of products": lambda x, y: lucid.einsum("ij,kj->ki", x, y),
    "elements": lambda x, y: (x * y).t() * 2,
}
FLATTENED = {
    "reshape": lambda r: r.reshape(-1),
    "flatten": lambda r: r.flatten(),
    "ravel": lambda r: r.ravel(),
    "contiguous": lambda r: r.contiguous().view(-1),
}


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("flatten", FLATTENED.values(), ids=FLATTENED)
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_writes_through_views_of_results(result, flatten, batched):
    """Whether a reshaped result is a view does not depend on how the batch lies in memory."""

    def f(x, y):
        made = result(x, y)
        if made.ndim == 2:
            flatten(made)[1] = 7.0
        return made * 1

    examples = [lucid.tensor(rng.standard_normal((4, 3, 2))) for _ in range(2)]
    operands = [e if d == 0 else e[0] for e, d in zip(examples, batched, strict=True)]
    chosen = [[o[i] if d == 0 else o for o, d in zip(operands, batched, strict=True)] for i in range(4)]
    loop = np.stack([f(*(c.clone() for c in each)).numpy() for each in chosen])
    np.testing.assert_allclose(vmap(f, in_dims=batched)(*operands).numpy(), loop)
