"""Steps of optimizers as generated loops: the bits of their formulas step by step, for all types and memory layouts."""

import numpy as np
import pytest

import lucid
from lucid import optim
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.threads import get_num_threads, set_num_threads
from lucid.core import kernels
from lucid.optim import elementwise

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

DECAYS = [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "maximize": True}]
MAKERS = {
    "sgd": (optim.SGD, DECAYS),
    "momentum": (
        optim.SGD,
        [{"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3}, {"momentum": 0.9, "nesterov": True}],
    ),
    "adam": (optim.Adam, [*DECAYS, {"amsgrad": True}]),
    "adamw": (optim.AdamW, DECAYS),
    "nadam": (optim.NAdam, DECAYS),
    "radam": (optim.RAdam, DECAYS),
    "adamax": (optim.Adamax, DECAYS),
    "adagrad": (optim.Adagrad, DECAYS),
    "adadelta": (optim.Adadelta, DECAYS),
    "rmsprop": (optim.RMSprop, [*DECAYS, {"momentum": 0.5}, {"centered": True}, {"centered": True, "momentum": 0.5}]),
    "rprop": (optim.Rprop, [{}, {"maximize": True}]),
    "lion": (optim.Lion, DECAYS),
}
SHAPES = [(300, 133), (7,), (3, 5), (0,), (40, 50)]


def trained(make, given, dtype, steps=4):
    """Parameters and states after some steps; gradients are often 0, and small ones follow large ones."""
    rng = np.random.default_rng(0)
    params = [lucid.tensor(rng.standard_normal(s).astype(dtype), requires_grad=True) for s in SHAPES]
    params.append(lucid.tensor(np.asfortranarray(rng.standard_normal((60, 400)).astype(dtype)), requires_grad=True))
    optimizer = make(params, lr=0.1, **given)
    for k in range(steps):
        for p in params:
            g = rng.standard_normal(p.shape) * (1e-3 if k % 2 else 1) * (rng.random(p.shape) < 0.7)
            p.grad = lucid.tensor(g.astype(dtype))
        optimizer.step()
    states = [v for p in params for v in optimizer.state[p].values() if isinstance(v, lucid.Tensor)]
    return [t.detach().numpy().tobytes() for t in (*params, *states)]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_step_has_the_bits_of_its_formula(name, dtype):
    make, options = MAKERS[name]
    before = kernels.in_use[0]
    for given in options:
        found = trained(make, given, dtype)
        assert any(key[0] is make and loop is not None for key, loop in elementwise._loops.items())
        kernels.use("numpy")
        try:
            assert found == trained(make, given, dtype)
        finally:
            kernels.use(before)


def test_bits_do_not_depend_on_threads():
    before = get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            found.append(trained(optim.AdamW, {"weight_decay": 0.1}, "f4"))
    finally:
        set_num_threads(before)
    assert found[0] == found[1]


def test_averages_do_not_become_subnormal():
    p = lucid.ones(40_000, requires_grad=True)
    optimizer = optim.Adam([p], betas=(0.5, 0.5))
    p.grad = lucid.full_like(p, 1e-30)
    optimizer.step()
    for _ in range(60):
        p.grad = lucid.zeros_like(p)
        optimizer.step()
    for name in ("exp_avg", "exp_avg_sq"):
        values = np.abs(optimizer.state[p][name].numpy())
        assert ((values == 0) | (values >= np.finfo(np.float32).tiny)).all()


def test_options_that_change_change_the_formula():
    p = lucid.ones(20_000, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)
    for maximize, decay, wanted in ((False, 0.0, 0.5), (True, 0.0, 1.0), (False, 0.5, 0.25)):
        optimizer.param_groups[0].update(maximize=maximize, weight_decay=decay)
        p.grad = lucid.ones_like(p)
        optimizer.step()
        np.testing.assert_array_equal(p.detach().numpy(), np.full(20_000, wanted, np.float32))


def test_gradients_of_other_types_and_in_odd_memory():
    p, q = (lucid.ones(20_000, requires_grad=True) for _ in range(2))
    raw = np.zeros(20_000 * 4 + 1, np.uint8)[1:].view(np.float32)  # not aligned
    raw[...] = 2.0
    p.grad, q.grad = lucid.from_numpy(raw), lucid.full_like(q, 2.0)
    for t in (p, q):
        optim.Adam([t], lr=0.1).step()
    np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
