"""Gradients that show the memory of a seed, or each other's: whoever is written, the others stay as they were."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.autograd import grad
from lucid.core import storage
from lucid.core.storage import FROZEN

N = 160  # matrices of this size are large enough to be shared


def _made(seed: int, *shape: int) -> lucid.Tensor:
    return lucid.tensor(np.random.default_rng(seed).standard_normal(shape or (N, N)).astype(np.float32))


def _leaf(seed: int) -> lucid.Tensor:
    return _made(seed).requires_grad_()


# Calls, and what their gradients are of the seed.
CALLS = {
    "add": (lambda x, y: x + y, lambda ct: (ct, ct)),
    "sub": (lambda x, y: x - y, lambda ct: (ct, -ct)),
    "clone": (lambda x, y: x.clone() + y, lambda ct: (ct, ct)),
    "transpose": (lambda x, y: x.t() + y, lambda ct: (ct.T, ct)),
    "cat": (lambda x, y: lucid.cat([x, y]), lambda ct: (ct[:N], ct[N:])),
    "cat of columns": (lambda x, y: lucid.cat([x, y], 1), lambda ct: (ct[:, :N], ct[:, N:])),
    "stack": (lambda x, y: lucid.stack([x, y]), lambda ct: (ct[0], ct[1])),
    "reshape": (lambda x, y: x.reshape(-1) + y.reshape(-1), lambda ct: (ct.reshape(N, N), ct.reshape(N, N))),
    "sum": (lambda x, y: x.sum() + y.sum(), lambda ct: (np.full((N, N), ct), np.full((N, N), ct))),
    "sum of rows": (lambda x, y: x.sum(1) + y.sum(0), lambda ct: (ct[:, None] + 0 * ct, ct + 0 * ct[:, None])),
}


def _dlpack(t: lucid.Tensor) -> None:
    np.from_dlpack(t)[...] = 7


def _by_optimizer(t: lucid.Tensor) -> None:
    t.requires_grad_()
    t.grad = lucid.ones_like(t)
    lucid.optim.SGD([t], lr=0.5).step()


def _unscaled(t: lucid.Tensor) -> None:
    p = nn.Parameter(lucid.zeros(t.shape))
    p.grad = t
    scaler = lucid.amp.GradScaler(init_scale=4.0)
    scaler.scale(lucid.zeros(()))
    scaler.unscale_(lucid.optim.SGD([p], lr=0.5))


def _clipped(t: lucid.Tensor) -> None:
    p = nn.Parameter(lucid.zeros(t.shape))
    p.grad = t
    nn.utils.clip_grad_norm_([p], 0.001)


def _accumulated(t: lucid.Tensor) -> None:
    p = nn.Parameter(lucid.zeros(t.shape))
    p.grad = t
    (3 * p).sum().backward()


def _by_data(t: lucid.Tensor) -> None:
    other = lucid.zeros(t.shape)
    other.data = t
    other.add_(1)
    np.testing.assert_array_equal(other.numpy(), t.numpy())


def _by_parameter(t: lucid.Tensor) -> None:
    p = nn.Parameter(t)
    with lucid.no_grad():
        p.add_(1)
    np.testing.assert_array_equal(p.detach().numpy(), t.numpy())


def _by_view(t: lucid.Tensor) -> None:
    row = t[0]
    row.mul_(3)
    np.testing.assert_array_equal(row.numpy(), t[0].numpy())
    t.fill_(2)
    assert row.tolist() == [2] * row.numel()


def _by_slice(t: lucid.Tensor) -> None:
    t[1:] = 5


def _by_mask(t: lucid.Tensor) -> None:
    t[t > 0] = -1


def _by_vmap(t: lucid.Tensor) -> None:
    lucid.vmap(lambda row: row.add_(1))(t)


def _by_jvp(t: lucid.Tensor) -> None:
    lucid.func.jvp(lambda x: t.mul(2).add_(x), (lucid.ones(t.shape),), (lucid.ones(t.shape),))
    t.add_(1)


WRITES = {
    "in place": lambda t: t.add_(1),
    "augmented": lambda t: t.__imul__(2.5),
    "fill_": lambda t: t.fill_(4),
    "copy_": lambda t: t.copy_(lucid.ones(t.shape)),
    "zero_": lambda t: t.zero_(),
    "normal_": lambda t: t.normal_(),
    "index": lambda t: t.__setitem__(0, 9.0),
    "slice": _by_slice,
    "mask": _by_mask,
    "view": _by_view,
    "view of all": lambda t: t.view(-1).add_(1),
    "transposed": lambda t: t.t().add_(1),
    "as_strided": lambda t: t.as_strided((N,), (1,)).zero_(),
    "detached": lambda t: t.detach().add_(1),
    "data": lambda t: t.data.add_(1),
    "data of another": _by_data,
    "a parameter": _by_parameter,
    "numpy": lambda t: t.numpy().fill(8),
    "asarray": lambda t: np.asarray(t).fill(8),
    "ufunc": lambda t: np.add(t, 1, out=t),
    "copyto": lambda t: np.copyto(t, 6),
    "dlpack": _dlpack,
    "out": lambda t: lucid.exp(lucid.ones(t.shape), out=t),
    "optimizer": _by_optimizer,
    "unscale_": _unscaled,
    "clip_grad_norm_": _clipped,
    "backward": _accumulated,
    "vmap": _by_vmap,
    "jvp": _by_jvp,
    "t_": lambda t: t.t_().add_(1),
}


@pytest.mark.parametrize("written", ["seed", "first", "second"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("call", ["add", "cat of columns", "sum of rows"])
def test_who_is_written_is_alone(call: str, write: str, written: str) -> None:
    fn, expected = CALLS[call]
    x, y = _leaf(1), _leaf(2)
    ct = _made(3, *fn(x, y).shape)
    before = np.array(ct.tolist(), np.float32)
    first, second = grad(fn(x, y), [x, y], ct)
    everyone = {"seed": ct, "first": first, "second": second}
    values = dict(zip(everyone, (before, *expected(before)), strict=True))
    target = everyone.pop(written)
    if write in ("view", "as_strided", "transposed", "t_", "slice", "vmap") and target.ndim < 2:
        pytest.skip("of matrices")
    WRITES[write](target)
    assert not np.array_equal(np.array(target.tolist(), np.float32), values[written]), "nothing was written"
    for name, t in everyone.items():
        np.testing.assert_array_equal(np.array(t.tolist(), np.float32), values[name])


@pytest.mark.parametrize("call", CALLS)
def test_gradients_are_right_and_shared(call: str) -> None:
    fn, expected = CALLS[call]
    x, y = _leaf(1), _leaf(2)
    ct = _made(3, *fn(x, y).shape) if fn(x, y).ndim else lucid.tensor(2.0)
    before = np.array(ct.tolist(), np.float32)
    found = grad(fn(x, y), [x, y], ct)
    assert found[0]._meta is FROZEN
    for g, wanted in zip(found, expected(before), strict=True):
        np.testing.assert_array_equal(np.array((g + 0).tolist()), np.array(wanted))
        assert g.is_contiguous() or call == "transpose"
        g.add_(1)
        np.testing.assert_array_equal(g.numpy(), wanted + np.float32(1))
    np.testing.assert_array_equal(np.array(ct.tolist(), np.float32), before)


def _seeded(ct: lucid.Tensor) -> lucid.Tensor:
    x = _leaf(1)
    found: lucid.Tensor = grad(x + 1, x, ct)
    return found


def test_memory_that_others_can_write_is_not_shared() -> None:
    array = np.ones((N, N), np.float32)
    whole = _made(4, N + 1, N)
    viewed, exposed, own = _made(4), _made(4), _made(4)
    row, seen = viewed[0], exposed.numpy()
    parameter = nn.Parameter(own)
    for ct in (lucid.from_numpy(array), whole[1:], viewed, exposed, own, parameter.detach()):
        g = _seeded(ct)
        before = g.tolist()
        with lucid.no_grad():
            for t in (whole, row, parameter):
                t.add_(1)
            array += 1
            seen += 1
        assert g.tolist() == before


def test_a_seed_has_its_memory_back_when_gradients_are_gone() -> None:
    ct = _made(3)
    place = ct.data_ptr()
    g = _seeded(ct)
    assert ct._meta is FROZEN and g._meta is FROZEN
    del g
    ct.add_(1)
    assert ct.data_ptr() == place
    g = _seeded(ct)  # it was written, so it has a version to count, and gradients get a copy
    assert g._meta is None and g.tolist() == ct.tolist()


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x.reshape(-1), lambda x: x.flip(0), lambda x: x[:]])
def test_gradients_outlive_the_seeds_that_they_show(view) -> None:
    numbers = lucid.arange(90_000.0).reshape(300, 300)
    x = lucid.zeros(300, 300, requires_grad=True)
    found = grad(view(x), x, view(numbers).contiguous().clone())
    assert lucid.equal(found.detach(), numbers)
    found += 1
    assert lucid.equal(found, numbers + 1)


def test_one_seed_serves_many_passes() -> None:
    ct = _made(3)
    found = [_seeded(ct) for _ in range(3)]
    assert all(g._meta is FROZEN for g in found)
    found[0].zero_()
    assert found[1].tolist() == found[2].tolist() == ct.tolist() and not found[0].any()


def test_small_gradients_and_recorded_ones_have_memory_of_their_own() -> None:
    x = lucid.ones(3, requires_grad=True)
    ct = lucid.ones(3)
    assert grad(x + 1, x, ct)._meta is None and ct._meta is None
    big, seed = _leaf(1), _made(3)
    assert grad(big * big, big, seed, create_graph=True)._meta is not FROZEN and seed._meta is not FROZEN
    (big + 1).backward(seed)
    seed.zero_()
    assert big.grad is not None and bool(big.grad.any())


def test_what_is_saved_of_a_frozen_tensor_stays() -> None:
    ct, w = _made(3), _leaf(5)
    before = np.array(ct.tolist(), np.float32)
    g = _seeded(ct)
    out = w * g
    ct.add_(1)
    np.testing.assert_array_equal(grad(out.sum(), w).numpy(), before)
    ct, before = _made(4), np.array(_made(4).tolist(), np.float32)
    g = _seeded(ct)
    out = w * ct
    g.add_(1)
    np.testing.assert_array_equal(grad(out.sum(), w).numpy(), before)
    out = w * g
    g.add_(1)
    with pytest.raises(RuntimeError, match="overwritten"):
        out.sum().backward()


def test_frozen_tensors_are_copied_and_pickled() -> None:
    ct = _made(3)
    g = _seeded(ct)
    for other in (copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone(), copy.copy(g)):
        assert other.tolist() == ct.tolist()
        other.add_(1)
        assert g.tolist() == ct.tolist()


def test_subclasses_keep_their_class() -> None:
    import lucid.torch as torch

    x = torch.randn(N, N, requires_grad=True)
    ct = torch.ones(N, N)
    (g,) = torch.autograd.grad(x + 1, x, ct)
    assert type(g) is type(ct) and g._meta is FROZEN
    g += 1
    assert bool((ct == 1).all()) and bool((g == 2).all())


def test_threads_agree_on_the_memory() -> None:
    for _ in range(5):
        g = _seeded(_made(3))
        start, rows = threading.Barrier(4), []

        def look(g: lucid.Tensor = g, start: threading.Barrier = start, rows: list[lucid.Tensor] = rows) -> None:
            start.wait()
            rows.append(g[0])

        threads = [threading.Thread(target=look) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        g.fill_(3)
        assert all(row.tolist() == [3] * N for row in rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_can_thaw() -> None:
    g = _seeded(_made(3))
    with storage._lock:
        child = os.fork()
        if not child:
            thread = threading.Thread(target=g.zero_)
            thread.start()
            thread.join(20)
            os._exit(int(thread.is_alive()))
    assert os.waitpid(child, 0)[1] == 0
