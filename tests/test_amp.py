"""Mixed precision: which operations autocast rounds and which it widens, and the scaling of gradients."""

import asyncio
import threading

import numpy as np
import pytest

import lucid
import lucid.amp
import lucid.optim
from lucid.amp import GradScaler, autocast
from lucid.amp.autocasting import in_low_precision, in_single_precision
from lucid.core import modes


def ones(*shape, **options):
    return lucid.ones(*shape, **options)


# Autocast.


@pytest.mark.parametrize("dtype", [lucid.bfloat16, lucid.float16])
@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: a @ b,
        lambda a, b: lucid.matmul(a, b),
        lambda a, b: lucid.mm(a, b),
        lambda a, b: lucid.nn.functional.prelu(a, b[0, :1]),
        lambda a, b: lucid.bmm(a[None], b[None]),
        lambda a, b: lucid.einsum("ij,jk->ik", a, b),
        lambda a, b: lucid.tensordot(a, b, 1),
        lambda a, b: lucid.addmm(a, a, b),
        lambda a, b: lucid.baddbmm(a[None], a[None], b[None]),
        lambda a, b: a.numpy() @ b,
    ],
)
def test_products_run_in_low_precision(product, dtype):
    a, b = lucid.randn(3, 3), lucid.randn(3, 3)
    with autocast("cpu", dtype):
        rounded = product(a, b)
    exact = product(a, b)
    assert rounded.dtype is dtype
    assert exact.dtype is lucid.float32
    np.testing.assert_allclose(rounded.float().numpy(), exact.numpy(), rtol=0.05, atol=0.05)


def test_other_operations_take_what_they_are_given():
    x = ones(3)
    with autocast("cpu"):
        assert {t.dtype for t in (x + x, x.exp(), x.sum(), x * 2.0)} == {lucid.float32}
        low = ones(2, 2) @ ones(2, 2)
        assert (low * 2).dtype is lucid.bfloat16
        assert (low + ones(2, 2)).dtype is lucid.float32


def test_products_with_vectors_are_as_precise_as_their_operands():
    a, v, low = lucid.randn(3, 3), lucid.randn(3), lucid.randn(3).bfloat16()
    weight = lucid.randn(2, 3, 3)
    calls = (
        lambda: lucid.mv(a, v),
        lambda: lucid.dot(v, v),
        lambda: lucid.vdot(v, v),
        lambda: lucid.addmv(v, a, v),
        lambda: lucid.nn.functional.bilinear(v, v, weight),
    )
    for call in calls:
        with autocast("cpu"):
            found = call()
        assert found.dtype is lucid.float32
        np.testing.assert_array_equal(found.numpy(), call().numpy())
    with autocast("cpu"):
        assert lucid.dot(low, low).dtype is lucid.bfloat16
        assert lucid.dot(low, v).dtype is lucid.nn.functional.bilinear(low, v, weight).dtype is lucid.float32


@pytest.mark.parametrize("dtype", [lucid.bfloat16, lucid.float16])
def test_factorisations_transforms_and_products_widen(dtype):
    x = (lucid.randn(3, 3) + 3 * lucid.eye(3)).to(dtype)
    calls = (
        lambda a: lucid.linalg.inv(a),
        lambda a: lucid.linalg.cholesky(a @ a.mT + lucid.eye(3)),
        lambda a: lucid.linalg.solve(a, a[0]),
        lambda a: lucid.linalg.solve(a, a),
        lambda a: lucid.linalg.lstsq(a, a).solution,
        lambda a: lucid.linalg.svdvals(a),
        lambda a: lucid.linalg.det(a),
        lambda a: lucid.fft.rfft(a).real,
        lambda a: lucid.fft.fft2(a).real,
        lambda a: lucid.prod(a, 1),
        lambda a: lucid.trace(a),
        lambda a: lucid.quantile(a, 0.3),
        lambda a: lucid.cdist(a, a),
    )
    for k, call in enumerate(calls):
        with autocast("cpu", dtype):
            found = call(x)
        assert found.dtype is lucid.float32, k
        if k != 1:
            np.testing.assert_allclose(found.numpy(), call(x.float()).numpy(), rtol=1e-6, atol=1e-6)
    with pytest.raises(RuntimeError, match="float32"):
        lucid.linalg.inv(x)  # outside, types are as they are given


def test_doubles_and_integers_are_left_alone():
    with autocast("cpu"):
        assert (ones(2, 2, dtype=lucid.float64) @ ones(2, 2, dtype=lucid.float64)).dtype is lucid.float64
        assert (ones(2, 2, dtype=lucid.int64) @ ones(2, 2, dtype=lucid.int64)).dtype is lucid.int64


def test_parameters_get_gradients_in_their_own_precision():
    w = lucid.randn(4, 4).requires_grad_()
    x = lucid.randn(2, 4)
    with autocast("cpu"):
        y = (x @ w).float()
    (y**2).sum().backward()
    assert w.grad.dtype is lucid.float32
    exact = w.detach().clone().requires_grad_()
    ((x @ exact) ** 2).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), exact.grad.numpy(), rtol=0.1, atol=0.3)


def test_contexts_nest_and_end():
    a = ones(2, 2)
    with autocast("cpu", lucid.float16):
        with autocast("cpu", enabled=False):
            assert (a @ a).dtype is lucid.float32
        with autocast("cpu"):
            assert (a @ a).dtype is lucid.bfloat16
        assert (a @ a).dtype is lucid.float16
        with pytest.raises(RuntimeError, match="do not fit"), autocast("cpu"):
            a @ ones(3, 3)
        assert (a @ a).dtype is lucid.float16
    assert (a @ a).dtype is lucid.float32


def test_as_a_decorator_it_holds_for_each_call():
    @autocast("cpu")
    def product(a):
        return a @ a

    assert product(ones(2, 2)).dtype is lucid.bfloat16
    assert (ones(2, 2) @ ones(2, 2)).dtype is lucid.float32


def test_it_holds_for_its_own_thread_and_task():
    found = []

    def elsewhere():
        found.append((ones(2, 2) @ ones(2, 2)).dtype)

    async def inside():
        with autocast("cpu"):
            await asyncio.sleep(0)
            return (ones(2, 2) @ ones(2, 2)).dtype

    async def outside():
        await asyncio.sleep(0)
        return (ones(2, 2) @ ones(2, 2)).dtype

    async def both():
        return await asyncio.gather(inside(), outside())

    with autocast("cpu"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [lucid.float32]
    assert asyncio.run(both()) == [lucid.bfloat16, lucid.float32]


def casts(tensor):
    """How many casts are on the tape above a leaf, each once."""
    seen, frontier = set(), [tensor.grad_fn]
    while frontier:
        node = frontier.pop()
        if node is not None and node not in seen:
            seen.add(node)
            frontier += [f for f, _ in node.next_functions]
    return sum(node.name() == "cast" for node in seen)


@pytest.mark.parametrize(("cached", "expected"), [(True, 1), (False, 3), (None, 1)])
def test_parameters_are_cast_once(cached, expected):
    w, x = lucid.randn(2, 2).requires_grad_(), lucid.randn(2, 2)
    with autocast("cpu", cache_enabled=cached):
        y = x @ w + x @ w + x @ w
    assert casts(y) == expected
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), (3 * x.sum(0)[:, None].expand(2, 2)).numpy(), rtol=0.05, atol=0.05)


def test_kept_casts_follow_writes_and_recording():
    w, x = ones(2, 2).requires_grad_(), ones(2, 2)
    with autocast("cpu"):
        with lucid.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad
        with lucid.no_grad():
            w.fill_(3.0)
        assert (x @ w)[0, 0].item() == 6.0


def test_inside_transforms():
    x = lucid.randn(5, 3)
    w = lucid.randn(3, 3)
    with autocast("cpu"):
        together = lucid.func.vmap(lambda v: v @ w)(x)
        gradient = lucid.func.grad(lambda v: (v @ w).float().sum())(x)
    assert together.dtype is lucid.bfloat16
    assert gradient.dtype is lucid.float32
    np.testing.assert_allclose(together.float().numpy(), (x @ w).numpy(), rtol=0.05, atol=0.05)


def test_functions_of_the_users_own_can_take_part():
    @in_low_precision
    def low(x, y, count, *, z=None):
        return x.dtype, y.dtype, count, z.dtype

    @in_single_precision
    def single(x, y, count):
        return x.dtype, y.dtype, count

    wide, narrow, double = (ones(2, dtype=d) for d in (lucid.float32, lucid.float16, lucid.float64))
    assert low(wide, narrow, 3, z=wide) == (lucid.float32, lucid.float16, 3, lucid.float32)
    with autocast("cpu"):
        assert low(wide, narrow, 3, z=double) == (lucid.bfloat16, lucid.bfloat16, 3, lucid.float64)
        assert single(narrow, wide, 3) == (lucid.float32, lucid.float32, 3)


def test_widening_for_operations_that_need_the_digits():
    with autocast("cpu"):
        casting = modes.autocast.get()
        low, number = casting.high(ones(2, dtype=lucid.bfloat16), 3.0)
        assert low.dtype is lucid.float32 and number == 3.0
        assert casting.high(ones(2, dtype=lucid.float64))[0].dtype is lucid.float64


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"dtype must be bfloat16 or float16, not lucid\.float32"):
        autocast("cpu", lucid.float32)
    with pytest.raises(TypeError, match="device_type must be a name"):
        autocast(lucid.bfloat16)
    assert lucid.amp.is_autocast_available("cpu")
    assert not lucid.amp.is_autocast_available("tpu")


# Scaling.


def scaled_setup(**options):
    x = lucid.tensor([1.0, 2.0]).requires_grad_()
    return x, lucid.optim.SGD([x], lr=0.5), GradScaler(**{"init_scale": 8.0, "growth_interval": 2, **options})


def test_scaled_steps_are_plain_steps():
    x, optimizer, scaler = scaled_setup()
    y = lucid.tensor([1.0, 2.0]).requires_grad_()
    plain = lucid.optim.SGD([y], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        scaler.scale((x**2).sum()).backward()
        (y**2).sum().backward()
        assert scaler.step(optimizer) is None
        scaler.update()
        plain.step()
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6)


def test_scale_keeps_small_gradients_in_half_precision():
    x = lucid.tensor([1.0]).requires_grad_()
    for factor, expected in ((1.0, 0.0), (2.0**14, 1e-8)):
        x.grad = None
        half = x.half() * 1e-4 * 1e-4
        (half.float().sum() * factor).backward()
        assert x.grad.item() / factor == pytest.approx(expected, rel=0.01, abs=0.0)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_steps_with_infinities_are_left_out_and_the_scale_backs_off(bad):
    x, optimizer, scaler = scaled_setup()
    before = x.detach().numpy().copy()
    x.grad = lucid.tensor([1.0, bad])
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_array_equal(x.detach().numpy(), before)
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_good_steps_in_a_row():
    x, optimizer, scaler = scaled_setup()
    found = []
    for bad in (False, False, False, True, False, False):
        x.grad = lucid.tensor([1.0, float("inf") if bad else 1.0])
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    assert found == [8.0, 16.0, 16.0, 8.0, 8.0, 16.0]


def test_the_scale_does_not_overflow():
    x, optimizer, scaler = scaled_setup(init_scale=2.0**127, growth_interval=1)
    x.grad = lucid.zeros(2)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_gradients_can_be_clipped_between_unscaling_and_the_step():
    x, optimizer, scaler = scaled_setup()
    scaler.scale((x * lucid.tensor([3.0, 4.0])).sum()).backward()
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(x.grad.numpy(), [3.0, 4.0])
    x.grad.clamp_(max=3.5)
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_allclose(x.detach().numpy(), [-0.5, 0.25])


def test_several_losses_and_optimizers():
    x, one, scaler = scaled_setup()
    y = lucid.tensor([5.0]).requires_grad_()
    two = lucid.optim.SGD([y], lr=1.0)
    losses = scaler.scale([x.sum(), (y * 2).sum()])
    assert isinstance(losses, list)
    for loss in losses:
        loss.backward()
    x.grad = lucid.tensor([float("nan"), 1.0])
    scaler.step(one)
    scaler.step(two)
    scaler.update()
    assert y.item() == 3.0
    assert x[0].item() == 1.0
    assert scaler.get_scale() == 4.0
    assert [loss.item() for loss in scaler.scale(iter([lucid.tensor(1.0)]))] == [4.0]


def test_orders_that_make_no_sense_are_refused():
    x, optimizer, scaler = scaled_setup()
    with pytest.raises(RuntimeError, match="no gradients were unscaled"):
        scaler.update()
    x.grad = lucid.ones(2)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already unscaled since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="unscale_ is called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(RuntimeError, match="closures are not supported"):
        scaler.step(optimizer, lambda: None)
    half = lucid.ones(2, dtype=lucid.float16).requires_grad_()
    half.grad = lucid.ones(2, dtype=lucid.float16)
    with pytest.raises(ValueError, match="gradients in float16 cannot be unscaled"):
        scaler.step(lucid.optim.SGD([half]))
    with pytest.raises(TypeError, match="scale takes a tensor"):
        scaler.scale(3.0)


@pytest.mark.parametrize(
    "options",
    [{"init_scale": 0.0}, {"growth_factor": 1.0}, {"backoff_factor": 1.5}, {"growth_interval": 0}],
    ids=str,
)
def test_factors_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="GradScaler: "):
        GradScaler(**options)


def test_a_scaler_that_is_not_enabled_steps_aside():
    x, optimizer, scaler = scaled_setup(enabled=False)
    loss = x.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_allclose(x.detach().numpy(), [0.5, 1.5])
    assert scaler.get_scale() == 1.0 and scaler.state_dict() == {} and not scaler.is_enabled()


def test_state_is_saved_and_loaded():
    x, optimizer, scaler = scaled_setup()
    x.grad = lucid.ones(2)
    scaler.step(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 1
    }  # fmt: skip
    other = GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(RuntimeError, match="the state is empty"):
        other.load_state_dict({})


def test_the_scale_can_be_set():
    _, _, scaler = scaled_setup()
    scaler.update(lucid.tensor(32.0))
    assert scaler.get_scale() == 32.0
    with pytest.raises(ValueError, match="new_scale must be a positive number"):
        scaler.update(float("nan"))


def test_unscaling_counts_as_a_write():
    x, optimizer, scaler = scaled_setup()
    x.grad = lucid.ones(2)
    before = x.grad._version
    scaler.unscale_(optimizer)
    assert x.grad._version > before
