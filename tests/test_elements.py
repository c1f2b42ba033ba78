"""Complex parts as views, and floating-point numbers as they are stored: what the table cannot say."""

import math

import numpy as np
import pytest
from samples import ALIASES

import lucid
from lucid import autograd, func

Z = np.array([1 + 2j, 3 - 4j, -0.5 + 0.25j])


def complex_leaf(requires_grad=True):
    return lucid.tensor(Z, requires_grad=requires_grad)


# --- real and imaginary parts -----------------------------------------------------------------------


def test_parts_show_the_memory():
    x = complex_leaf(False)
    x.real[0] = 7
    x.imag.mul_(2)
    np.testing.assert_array_equal(x.numpy(), [7 + 4j, 3 - 8j, -0.5 + 0.5j])
    assert x.real._base is x and x.real.is_view()
    y = lucid.tensor(np.arange(6).reshape(2, 3) * (1 + 1j)).t()[1:]
    y.imag.zero_()
    np.testing.assert_array_equal(y.numpy(), [[1, 4], [2, 5]])


def test_parts_can_be_assigned():
    x = complex_leaf(False)
    x.real = lucid.tensor([1.0, 2.0, 3.0])
    x.imag = 5
    np.testing.assert_array_equal(x.numpy(), [1 + 5j, 2 + 5j, 3 + 5j])
    x.real += 1
    x.imag *= 2
    np.testing.assert_array_equal(x.numpy(), [2 + 10j, 3 + 10j, 4 + 10j])


def test_parts_of_real_tensors():
    x = lucid.tensor([1.0, 2.0])
    assert x.real is x
    x.real = lucid.tensor([3.0, 4.0])
    assert x.tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="complex"):
        x.imag  # noqa: B018  # the property itself is refused
    with pytest.raises(RuntimeError, match="complex"):
        x.imag = 1.0
    with pytest.raises(RuntimeError, match="complex"):
        lucid.view_as_real(x)


def wrote_parts(z):
    a = z * 1
    a.real.mul_(3)
    a.imag[0] = 5.0
    a.real += a.imag
    lucid.view_as_real(a)[1].mul_(z.real[0])
    return (a * a.conj()).real.sum() + (a.real * a.imag).sum()


def wrote_parts_anew(z):
    """The same without writes."""
    re, im = z.real * 3, lucid.cat([lucid.full((1,), 5.0, dtype=lucid.float64), z.imag[1:]])
    re = re + im
    scale = lucid.stack([z.real[0] * 0 + 1, z.real[0], z.real[0] * 0 + 1])
    re, im = re * scale, im * scale
    return (re * re + im * im + re * im).sum()


def test_gradients_of_writes_through_parts():
    z = complex_leaf()
    want = autograd.grad(wrote_parts_anew(z), [z], create_graph=True)[0]
    got = autograd.grad(wrote_parts(z), [z], create_graph=True)[0]
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-12)
    direction = lucid.tensor(Z[::-1].copy())
    second = [autograd.grad((g * direction).real.sum(), [z])[0].numpy() for g in (got, want)]
    np.testing.assert_allclose(*second, 1e-12)
    wrote_parts(z).backward()
    np.testing.assert_allclose(z.grad.numpy(), want.detach().numpy(), 1e-12)


@pytest.mark.parametrize("transform", [
    lambda f: lambda z, t: func.grad(f)(z),
    lambda f: lambda z, t: func.jvp(f, (z,), (t,))[1],
    lambda f: lambda z, t: func.jvp(func.grad(f), (z,), (t,))[1],
    lambda f: lambda z, t: func.vmap(f)(lucid.stack([z, t])),
    lambda f: lambda z, t: func.vmap(func.grad(f))(lucid.stack([z, t])),
    lambda f: lambda z, t: func.grad(lambda a: func.vmap(f)(lucid.stack([a, a * t])).sum())(z),
    lambda f: lambda z, t: func.make_graph(f)(z)(t),
    lambda f: lambda z, t: func.vjp(func.grad(f), z)[1](t)[0],
])  # fmt: skip
def test_writes_through_parts_inside_transforms(transform):
    z, t = complex_leaf(False), lucid.tensor(Z[::-1] * (0.5 + 1j))
    got, want = transform(wrote_parts)(z, t), transform(wrote_parts_anew)(z, t)
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-12, 1e-12)


def test_a_saved_value_notices_a_write_through_a_part():
    z = complex_leaf()
    a = z * 1
    loss = (a * a).real.sum()
    a.imag.zero_()
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()
    with pytest.raises(RuntimeError, match="leaf"):
        z.real.mul_(2)


def test_view_as_complex_shares_or_refuses():
    x = lucid.zeros(3, 2)
    lucid.view_as_complex(x)[1] = 2 + 3j
    assert x.tolist() == [[0, 0], [2, 3], [0, 0]]
    with pytest.raises(RuntimeError, match="without gaps"):
        lucid.view_as_complex(lucid.zeros(2, 3).t())
    with pytest.raises(RuntimeError, match="size 2"):
        lucid.view_as_complex(lucid.zeros(2, 3))
    with pytest.raises(RuntimeError, match="float32 or float64"):
        lucid.view_as_complex(lucid.zeros(2, dtype=lucid.int64))
    with pytest.raises(RuntimeError, match="float32 or float64"):
        lucid.view_as_complex(lucid.zeros(2, dtype=lucid.float16))


def test_derivatives_of_writes_through_view_as_complex():
    def written(x):
        a = x * 1
        lucid.view_as_complex(a).mul_(1j)
        lucid.view_as_complex(a)[1:].real.mul_(x[0])
        return (a * a * a).sum()

    def anew(x):
        turned = lucid.stack([-x[:, 1], x[:, 0]], 1)
        top, rest = turned[:1], lucid.stack([turned[1:, 0] * x[0], turned[1:, 1]], 1)
        return (lucid.cat([top, rest]) ** 3).sum()

    x = lucid.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 0.25]], dtype=lucid.float64)
    np.testing.assert_allclose(func.hessian(written)(x).numpy(), func.hessian(anew)(x).numpy(), 1e-12)
    np.testing.assert_allclose(func.jacfwd(func.jacfwd(written))(x).numpy(), func.hessian(anew)(x).numpy(), 1e-12)


def test_complex_of_single_precision():
    x = lucid.complex(lucid.tensor([1.0, -0.0]), lucid.tensor([[2.0], [math.nan]]))
    assert x.dtype == lucid.complex64 and x.shape == (2, 2)
    assert np.signbit(x.numpy().real[0, 1])
    widths = (lucid.float16, lucid.bfloat16), (lucid.float32, lucid.float64)
    for (a, b), kind in zip(widths, (lucid.complex64, lucid.complex128), strict=True):
        assert lucid.complex(lucid.ones(1, dtype=a), lucid.ones(1, dtype=b)).dtype == kind
    with pytest.raises(RuntimeError, match="int64"):
        lucid.complex(lucid.tensor([1]), lucid.tensor([1]))
    with pytest.raises(RuntimeError, match="broadcast"):
        lucid.complex(lucid.zeros(2), lucid.zeros(3))
    assert lucid.polar(lucid.tensor([1.0]), lucid.tensor([0.0])).dtype == lucid.complex64


def test_nothing_is_lazy():
    x = complex_leaf(False)
    assert x.resolve_conj() is x and x.resolve_neg() is x
    assert not x.conj().is_conj() and not x.conj().imag.is_neg()
    np.testing.assert_array_equal(x.conj_physical().numpy(), Z.conj())


def test_is_nonzero_needs_one_element():
    assert lucid.tensor([[3.0]]).is_nonzero()
    for shape in (0, 2):
        with pytest.raises(RuntimeError, match="ambiguous"):
            lucid.ones(shape).is_nonzero()


# --- numbers as they are stored ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64])
def test_nextafter_is_one_step_of_the_type(dtype):
    x = lucid.tensor([1.0, 1.0, 0.0, math.inf, 2.0], dtype=dtype)
    y = lucid.tensor([2.0, 0.0, 1.0, 0.0, 2.0], dtype=dtype)
    found, info = lucid.nextafter(x, y), lucid.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    assert found.dtype == dtype
    assert found.double().tolist() == [1 + info.eps, 1 - info.eps / 2, smallest, info.max, 2.0]


def test_nextafter_takes_floats_only():
    with pytest.raises(TypeError, match="floating-point"):
        lucid.nextafter(lucid.tensor([1]), lucid.tensor([2]))


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64])
def test_frexp_and_ldexp_are_inverse(dtype):
    x = lucid.tensor([1.0, -6.0, 0.0, 0.3, 1e-6, 1024.0, math.inf, -math.inf], dtype=dtype)
    mantissa, exponent = lucid.frexp(x)
    assert mantissa.dtype == dtype and exponent.dtype == lucid.int32
    finite = mantissa[:6].abs()
    assert (((finite >= 0.5) & (finite < 1)) | (finite == 0)).all()
    assert lucid.ldexp(mantissa, exponent).tolist() == x.tolist()


def test_ldexp_with_numbers():
    assert lucid.ldexp(lucid.tensor([3.0]), 2).tolist() == [12.0]
    assert lucid.ldexp(lucid.tensor([1, 2]), lucid.tensor([1, 1])).dtype == lucid.float32
    assert lucid.ldexp(lucid.tensor([1.0]), 5000).tolist() == [math.inf]


def test_signs_of_zero_and_nan():
    x = lucid.tensor([-0.0, 0.0, -math.nan, math.nan, -1.0])
    assert x.signbit().tolist() == np.signbit(x.numpy()).tolist()
    assert lucid.tensor([-3, 0, 2]).signbit().tolist() == [True, False, False]


def test_heaviside_wants_one_type():
    with pytest.raises(RuntimeError, match="one type"):
        lucid.heaviside(lucid.tensor([1.0]), lucid.tensor([1]))
    assert lucid.heaviside(lucid.tensor([math.nan]), lucid.tensor([5.0])).tolist() == [0.0]


def test_gcd_and_lcm_of_booleans_are_refused():
    for function in (lucid.gcd, lucid.lcm):
        with pytest.raises(TypeError, match="booleans"):
            function(lucid.tensor([True]), lucid.tensor([True]))


def test_positive_of_booleans_is_refused():
    x = lucid.tensor([1.0])
    assert +x is x
    with pytest.raises(RuntimeError, match="sign"):
        +lucid.tensor([True])


def test_complex_logaddexp_does_not_overflow():
    x, y = lucid.tensor([1000 + 1j, -1000 - 1j]), lucid.tensor([1000 + 2j, 5j])
    want = [1000 + np.log(np.exp(1j) + np.exp(2j)), 5j]
    np.testing.assert_allclose(lucid.logaddexp(x, y).numpy(), want, 1e-6)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize("size", [1e300, -1e300, 1e17, math.inf, -math.inf])
def test_equal_operands_of_logaddexp_share_its_gradient(name, size):
    """Also where log 2 is lost beside them."""
    x, y = (lucid.tensor(size, dtype=lucid.float64, requires_grad=True) for _ in range(2))
    found = autograd.grad(getattr(lucid, name)(x, y), [x, y])
    assert [g.item() for g in found] == [0.5, 0.5]


@pytest.mark.parametrize("place", range(3))
def test_gradients_of_sums_of_exponentials_are_no_numbers_where_operands_are_none(place):
    values = [-math.inf, 1.0, 2.0]
    values[place] = math.nan
    x = lucid.tensor(values, requires_grad=True)
    grad = autograd.grad(lucid.logsumexp(x, 0), [x])[0].numpy()
    assert np.isnan(grad[np.array(values) > -math.inf]).all() and np.isnan(grad[place])
    total = lucid.logcumsumexp(x, 0)[-1]
    assert np.isnan(autograd.grad(total, [x])[0].numpy()).all()


def test_in_place_functions_of_the_namespace():
    x = lucid.tensor([4.0, 9.0])
    assert lucid.sqrt_(x) is x and x.tolist() == [2, 3]
    assert lucid.arcsin_(lucid.zero_(x)) is x
    assert lucid.fill(x, 3).tolist() == [3, 3] and x.tolist() == [0, 0]
    w = lucid.tensor(2.0, requires_grad=True)
    assert autograd.grad(lucid.fill(x, w).sum(), [w])[0].item() == 2


def test_aliases_are_the_functions_themselves():
    lucid.ones(1, 1).transpose_(0, 1)  # its module is loaded by the first call
    for alias, name in ALIASES.items():
        if hasattr(lucid, alias) and alias not in ("swapaxes", "swapdims"):
            assert getattr(lucid, alias) is getattr(lucid, name), alias
        assert getattr(lucid.Tensor, alias) is getattr(lucid.Tensor, name), alias
        if hasattr(lucid.Tensor, name + "_") and alias != "squeeze_all":  # a method of the original alone
            assert getattr(lucid.Tensor, alias + "_") is getattr(lucid.Tensor, name + "_"), alias
