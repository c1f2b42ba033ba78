"""Gradients of parts that are seen, or written, through chains of views are those of the same parts of copies."""

import pytest

import lucid
from lucid import autograd, func

VIEWS = {
    "t": lambda x: x.transpose(-1, -2),
    "movedim": lambda x: x.movedim(0, -1),
    "flat": lambda x: x.reshape(-1, x.shape[-1]),
    "split": lambda x: x.reshape(2, -1, x.shape[-1]),
    "slice": lambda x: x[..., 1:],
    "step": lambda x: x[::2],
    "row": lambda x: x[-1] if x.ndim > 2 else x,
    "diagonal": lambda x: x.diagonal(0, 0, 1).unsqueeze(0),
    "windows": lambda x: x.unfold(-1, 2, 2),
    "overlapping": lambda x: x.unfold(0, 2, 1),
    "expand": lambda x: x.expand(2, *x.shape),
    "expanded rows": lambda x: x[..., :1].expand(*x.shape[:-1], 3),
    "newaxis": lambda x: x[None],
    "alias": lambda x: x.view_as(x),
}
CHAINS = [(a, b, c) for a in VIEWS for b in VIEWS for c in ("slice", "row", "diagonal", "windows", "overlapping")]


def seen(chain, x, between):
    for name in chain:
        x = between(VIEWS[name](x))
    return x


def parts(x, chain, between):
    """Uses the ends of the chain several times, and what lies on the way and below."""
    total = (x * x).sum()
    for k in (1.0, 2.0):
        end = seen(chain, x, between)
        total = total + (end.sin() * k).sum() + (end[..., :1] ** 3).sum()
        total = total + (seen(chain[:2], x, between) ** 2).sum() * k
    return total


def values(shape=(4, 3, 6)):
    return lucid.randn(*shape, generator=lucid.Generator().manual_seed(0), dtype=lucid.float64)


def viewed(y):
    return y


def is_possible(chain):
    try:
        return seen(chain, values(), viewed).numel() > 0
    except (RuntimeError, IndexError, ValueError):
        return False


POSSIBLE = [chain for chain in CHAINS if is_possible(chain)]


def test_most_chains_are_possible():
    assert len(POSSIBLE) > 400


@pytest.mark.parametrize("end", VIEWS)
def test_gradients_through_chains(end):
    for chain in [c for c in POSSIBLE if c[0] == end]:
        x = values().requires_grad_()

        def of_views(y, chain=chain):
            return parts(y, chain, viewed)

        def of_copies(y, chain=chain):
            return parts(y, chain, lucid.clone)

        (expected,) = autograd.grad(of_copies(x), [x])
        (found,) = autograd.grad(of_views(x), [x])
        assert lucid.allclose(found, expected), chain
        (recorded,) = autograd.grad(of_views(x), [x], create_graph=True)
        assert lucid.allclose(recorded, expected), chain
        (again,) = autograd.grad((recorded**2).sum(), [x])
        (copied,) = autograd.grad(of_copies(x), [x], create_graph=True)
        assert lucid.allclose(again, autograd.grad((copied**2).sum(), [x])[0]), chain


@pytest.mark.parametrize("end", VIEWS)
def test_gradients_through_chains_inside_transforms(end):
    for chain in [c for c in POSSIBLE if c[1] == end][::4]:
        x = values()
        batch = lucid.stack([x, 2 * x])
        pull = func.grad(lambda y, chain=chain: parts(y, chain, viewed))
        expected = func.grad(lambda y, chain=chain: parts(y, chain, lucid.clone))
        assert lucid.allclose(func.vmap(pull)(batch), func.vmap(expected)(batch)), chain
        for found, right in zip(func.jvp(pull, (x,), (x,)), func.jvp(expected, (x,), (x,)), strict=True):
            assert lucid.allclose(found, right), chain
        assert lucid.allclose(func.make_graph(pull)(x)(2 * x), expected(2 * x)), chain


def test_only_views_that_show_elements_are_passed():
    """The real part of a complex number is no element of it."""
    z = lucid.tensor([[1.0 + 2.0j, 3.0j], [2.0, 1.0 - 1.0j]], dtype=lucid.complex128, requires_grad=True)

    def loss(copied):
        total = 0.0
        for i in range(2):
            total = (
                total + (copied(z.real)[i] * copied(z.imag)[i] * (i + 1)).sum() + (copied(z.t())[i].abs() ** 2).sum()
            )
        return total

    for create_graph in (False, True):
        (found,) = autograd.grad(loss(viewed), [z], create_graph=create_graph)
        assert lucid.allclose(found, autograd.grad(loss(lucid.clone), [z])[0])


def test_views_with_hooks_and_targets_are_run():
    x = values((3, 4)).requires_grad_()
    hooked, wanted, retained = x.t(), (x * 1).t(), (x * 1).t()
    seen_by_hook = []
    hooked.register_hook(lambda g: seen_by_hook.append(g.clone()) or g * 2)
    retained.retain_grad()
    loss = sum((v[i] * (i + 1)).sum() for i in range(4) for v in (hooked, wanted, retained))
    rows = lucid.arange(1.0, 5.0, dtype=lucid.float64).unsqueeze(1).expand(4, 3)
    assert lucid.equal(autograd.grad(loss, [wanted], retain_graph=True)[0], rows)
    loss.backward()
    assert len(seen_by_hook) == 1
    assert lucid.equal(seen_by_hook[0], rows)
    assert lucid.equal(retained.grad, rows)
    assert lucid.equal(x.grad, 4 * rows.t())


def test_parts_do_not_write_to_what_others_hold():
    x = values((3, 4)).requires_grad_()
    seed = lucid.ones(3, 4, dtype=lucid.float64)
    y = x * 1
    autograd.backward([y, y.t()[1], y.t()[2]], [seed, seed[:, 0], seed[:, 0]])
    assert lucid.equal(seed, lucid.ones_like(seed))
    assert x.grad.sum(0).tolist() == [3.0, 6.0, 6.0, 3.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_writes_through_chains(create_graph):
    x = values((4,)).requires_grad_()

    def written(through):
        h = values((3, 4)) * x
        for i in range(4):
            if through:
                h.t()[i, 1:] = x[i] * x[:2]
                h.t().t()[1:][0, i : i + 1].mul_(x[i])
            else:
                h[1:, i] = x[i] * x[:2]
                h[1, i] = h[1, i].clone() * x[i]
        return (h**3).sum()

    (found,) = autograd.grad(written(True), [x], create_graph=create_graph)
    (expected,) = autograd.grad(written(False), [x])
    assert lucid.allclose(found, expected)


def test_writes_through_views_of_memory_in_column_major_order():
    """There a transposed tensor is seen as one row, and in a gradient in row-major order it is not."""

    def written(x):
        h = lucid.from_numpy(values((3, 4)).numpy().copy(order="F")) * 1
        assert not h.is_contiguous()
        row = h.t().view(-1)
        row[2:5] = x[:3] * x[1:]
        h[1:].t()[2].copy_(x[:2] ** 2)
        row[1:7][2:4].mul_(x[0])
        return (h**3).sum()

    x = values((4,)).requires_grad_()
    assert autograd.gradcheck(written, [x])
    assert autograd.gradgradcheck(written, [x])


STEPS = [
    lambda h, x: h[1].copy_(h[0].clone() * x),
    lambda h, x: h[:, 2].mul_(x[:4]),
    lambda h, x: h[1:3, 2:4].add_(h[0:2, 1:3].clone().sin()),
    lambda h, x: h.t()[3].copy_(x[:4] * h[:, 0].clone()),
    lambda h, x: h.view(-1)[5:9].mul_(x[1:5]),
    lambda h, x: h[2, ::2].copy_(h[2, 1::2].clone() * x[0]),
    lambda h, x: h[1:][0].add_(x * x),
    lambda h, x: h.diagonal().mul_(x[2:]),
    lambda h, x: h[3].zero_(),
    lambda h, x: h.add_(h.clone().cos() * x),
]


@pytest.mark.parametrize("seed", range(8))
def test_writes_and_reads_that_cover_each_other_in_recorded_passes(seed):
    """A pass that is recorded, or runs inside a transform, takes parts out one by one; a plain one writes to an array."""
    order = lucid.randint(0, len(STEPS), (9,), generator=lucid.Generator().manual_seed(seed)).tolist()

    start = values((4, 6))

    def written(x):
        h = start * x
        for k in order:
            STEPS[k](h, x)
        return (h.sin() * start).sum() + (h[1:3, 1] ** 2).sum()

    x = (values((6,)) / 2).requires_grad_()
    assert autograd.gradcheck(written, [x])
    (plain,) = autograd.grad(written(x), [x])
    (recorded,) = autograd.grad(written(x), [x], create_graph=True)
    assert lucid.allclose(recorded, plain)
    assert autograd.gradgradcheck(written, [x])
    x = x.detach()
    batch = lucid.stack([x, x + 0.5])
    pull = func.grad(written)
    assert lucid.allclose(func.vmap(pull)(batch), lucid.stack([pull(b) for b in batch]))
    primal, tangent = func.jvp(pull, (x,), (x,))
    assert lucid.allclose(primal, plain)
    assert lucid.allclose(tangent, func.hessian(written)(x) @ x)
    assert lucid.allclose(func.make_graph(pull)(x)(x + 0.5), pull(x + 0.5))
