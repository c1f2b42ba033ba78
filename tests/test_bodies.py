"""Bodies of elementwise primitives: they compute what the kernels do, and rules on arrays what rules on tensors do."""

import math

import numpy as np
import pytest

import lucid
from lucid.backends.numpy.bodies import derived
from lucid.core import kernels
from lucid.core.primitive import P, registry
from lucid.kinds.kind import NeedsValueError
from lucid.ops.categories import Elementwise
from lucid.ops.expressions import NotScalarError, Operand, Result, Source, read

kernels.load_all()
lucid.special, lucid.nn  # noqa: B018  # declared with these

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TYPES = [np.dtype(t) for t in ("float32", "float64", "float16", "complex64")]
VALUES = np.array(
    [-np.inf, -100, -3, -2.5, -1, -0.5, -1e-3, -0.0, 0, 1e-3, 0.1, 0.5, 1, 1.5, 3, 25, 100, np.inf, np.nan]
)
PARAMETERS = {
    "round": [{"decimals": 0}],
    "clamp": [{"lo": -0.5, "hi": 1.0}, {"lo": None, "hi": 1.0}],
    "nan_to_num": [{"nan": 1.5, "posinf": None, "neginf": -2.0}],
    "softplus": [{"beta": 2.0, "threshold": 1.0}],
    "logit": [{"eps": None}],
    "pow_scalar": [{"exponent": e} for e in (3, 4, -1, 0.5, 1.7, 0, -2.5)],
    "within": [{"lo": -1.0, "hi": 1.0, "inside": inside} for inside in (True, False)],
    "step": [{"above": 1.0, "below": 0.25}],
    "hardtanh": [{"lo": -1.0, "hi": 1.0}],
    "leaky_relu": [{"slope": s} for s in (0.1, 0.0, 1.5)],
    "softshrink": [{"lambd": 0.5}],
    "hardshrink": [{"lambd": 0.5}],
    "threshold": [{"threshold": 0.5, "value": -3.0}],
    "elu": [{"alpha": 1.5, "scale": 2.0, "rate": 0.5}],
    "elu_slope": [{"alpha": 1.5, "scale": 2.0, "rate": 0.5}],
    "huber": [{"delta": 1.0}],
    "multigammaln": [{"p": 3}],
}
ELEMENTWISE = {name: p for name, p in registry.items() if isinstance(p, Elementwise)}
WITH_BODY = sorted(name for name, p in ELEMENTWISE.items() if p.body is not None)
# In single precision the compiled loops use approximations that are as good as that; half rounds once or several times.
TOLERANCES = {F32: 2e-6, F64: 1e-13, np.dtype(np.float16): 2e-3, np.dtype(np.complex64): 2e-6}


def operands(prim, dtype, size=1):
    values = np.repeat(VALUES, size)
    if prim.name == "probability_entropy":
        values = np.clip(np.nan_to_num(values), 0, 1)
    if prim.name == "overlap_reciprocal":  # which refuses 0
        values = np.where(np.isfinite(values) & (values != 0), values, 2.0)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            values = values[::-1] + 1j * np.roll(values, 1)
        return [np.roll(values, 3 * k * size).astype(dtype) for k in range(len(prim.operands))]


def close(got, want, rtol):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=max(rtol * 1e-2, 1e-6 * (rtol > 1e-7)))


@pytest.mark.parametrize("name", [n for n in WITH_BODY if kernels.has_own(registry[n])])
def test_bodies_say_what_written_kernels_compute(name):
    prim = registry[name]
    for dtype in TYPES:
        if dtype.kind == "c" and prim.real:
            continue
        given = operands(prim, dtype)
        for params in PARAMETERS.get(name, [{}]):
            with np.errstate(all="ignore"):
                want = np.asarray(kernels.resolved(prim)(*given, **params))
                got = np.asarray(derived(prim)(*given, **params))
            assert got.dtype == want.dtype, (dtype, params)
            close(got.astype(complex), want.astype(complex), TOLERANCES[dtype])


@pytest.mark.parametrize("name", WITH_BODY)
def test_large_arrays_in_blocks_are_what_small_ones_are(name):
    prim = registry[name]
    kernel = derived(prim)
    for params in PARAMETERS.get(name, [{}]):
        small, large = operands(prim, F32), operands(prim, F32, 4000)
        with np.errstate(all="ignore"):
            want, got = np.asarray(kernel(*small, **params)), np.asarray(kernel(*large, **params))
            close(got, np.repeat(want, 4000), 1e-6)
            assert [np.array_equal(a, b, equal_nan=True) for a, b in zip(large, operands(prim, F32, 4000), strict=True)]
            whole = np.asarray(kernel(*[a.reshape(4, -1).T for a in large], **params))  # not in row-major order
        close(whole, got.reshape(4, -1).T, 1e-6)


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_every_elementwise_primitive_can_be_computed(name):
    prim = ELEMENTWISE[name]
    assert prim.body is None or not prim.calls, "a body says all"
    if prim.body is None:
        assert kernels.resolved(prim) is not None


def test_few_primitives_are_base_functions_or_name_a_function_of_a_library():
    assert len([p for p in ELEMENTWISE.values() if p.body is None and not p.calls]) <= 75
    assert len([p for p in ELEMENTWISE.values() if p.calls.startswith("scipy")]) <= 40


def test_equal_parts_of_a_body_are_computed_once():
    body = read(lambda x: P.exp(x) * P.exp(x) + 2.0, [F32], {})
    assert [s.primitive.name for s in body.steps] == ["exp", "mul", "add"]
    assert body.steps[1].operands == (Result(0), Result(0)) and body.result == Result(2)
    assert body.dtype == F32


def test_signs_of_zero_are_told_apart():
    body = read(lambda x: x * 0.0 + x * -0.0, [F32], {})
    assert len(body.steps) == 3


def test_bodies_are_in_terms_of_base_functions():
    body = P.silu.source.body([F64], {})
    assert all(s.primitive.body is None for s in body.steps) and len(body.steps) > 3


def test_types_of_bodies_are_tracked():
    assert read(lambda x: x > 0, [F32], {}).dtype == np.bool_
    assert read(lambda x: P.abs(x) + 1, [np.dtype(np.complex64)], {}).dtype == F32
    assert read(lambda x, y: x, [F32, F64], {}).result == Operand(0)


def source_of_nan_to_num(**given):
    return P.nan_to_num.source.body([F32], {"nan": 0.0, "posinf": None, "neginf": None} | given)


def test_floats_are_left_open_unless_something_is_decided_by_them():
    source = P.leaky_relu.source
    assert source.body([F32], {"slope": 0.1}) is source.body([F32], {"slope": 0.2})
    deciding = Source(lambda x, slope: x if slope == 1 else x * slope)
    assert deciding.body([F32], {"slope": 1.0}).steps == () and len(deciding.body([F32], {"slope": 0.5}).steps) == 1
    assert source_of_nan_to_num(posinf=1.0) is not source_of_nan_to_num(neginf=1.0)
    with pytest.raises(NeedsValueError):
        read(deciding.function, [F32], {"slope": 1.0}, opened=True)


def test_what_is_no_scalar_function_is_refused():
    with pytest.raises(NotScalarError, match="cumsum"):
        read(lambda x: P.cumsum(x, dim=0), [F32], {})
    with pytest.raises(NotScalarError):
        read(lambda x: x * lucid.ones(2), [F32], {})


def test_a_wrong_body_is_found():
    def kernel_of(body):
        prim = Elementwise("made_up_body", (1,), ("x",), body=body)
        del registry["made_up_body"]
        return derived(prim)(operands(prim, F32)[0])

    with np.errstate(all="ignore"):
        want = np.tanh(operands(P.tanh, F32)[0])
        close(kernel_of(lambda x: P.tanh(x)), want, 1e-6)
        with pytest.raises(AssertionError):
            close(kernel_of(lambda x: P.tanh(x) * 1.001), want, 1e-6)


# --- first derivatives of arrays -----------------------------------------------------------------


def pulled(prim, arrays, k, params):
    x = [lucid.tensor(a, requires_grad=i == k) for i, a in enumerate(arrays)]
    out = prim(*x, **params)
    ct = lucid.tensor(np.linspace(-1, 1, out.numel()).astype(out.numpy().dtype).reshape(out.shape))
    by_arrays = lucid.autograd.grad(out, x[k], ct, retain_graph=True)
    by_tensors = lucid.autograd.grad(out, x[k], ct, create_graph=True)
    return by_arrays.detach().numpy(), by_tensors.detach().numpy()


@pytest.mark.parametrize("name", sorted(n for n in ELEMENTWISE if ELEMENTWISE[n].differentiable))
def test_rules_give_for_arrays_what_they_give_for_tensors(name):
    prim = ELEMENTWISE[name]
    if name not in WITH_BODY and (
        prim.calls or prim.rules[0] is None or any(n not in prim.names for n in prim.rules[0].names)
    ):
        pytest.skip("its parameters are not known here; the op table has it")
    for dtype in (F32, F64, np.dtype(np.complex64)):
        if dtype.kind == "c" and (prim.real or name in ("hypot", "atan2", "remainder", "fmod", "copysign", "cbrt")):
            continue
        given = [np.where(np.isfinite(a), a, 0.3) for a in operands(prim, dtype)]
        for params in PARAMETERS.get(name, [{}]):
            for k, way in enumerate(prim.ways):
                if way is None:
                    continue
                try:
                    with np.errstate(all="ignore"):
                        got, want = pulled(prim, given, k, params)
                except TypeError:
                    assert dtype.kind == "c", name  # a function that has no complex form
                    continue
                close(got.astype(complex), want.astype(complex), 2e-5 if dtype != F64 else 1e-12)


def test_rules_are_scalar_functions():
    """None of the rules that ran above had to be run on tensors instead."""
    slow = [name for name, p in ELEMENTWISE.items() for way in p.ways if way is not None and way.refused]
    assert slow == []


def test_a_rule_that_is_none_runs_on_tensors():
    prim = Elementwise(
        "made_up_rule", (lambda x: P.sum(x, dims=(), keepdim=False) * 0 + 3.0,), ("x",), body=lambda x: x * 3
    )
    del registry["made_up_rule"]
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    prim(x).sum().backward()
    assert prim.ways[0].refused and x.grad.tolist() == [3.0, 3.0]


def test_broadcast_operands():
    x = lucid.tensor(np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100), requires_grad=True)
    y = lucid.tensor(np.linspace(0.1, 2, 100, dtype=np.float32), requires_grad=True)
    out = lucid.logaddexp(x, y)
    np.testing.assert_allclose(out.detach().numpy(), np.logaddexp(x.detach().numpy(), y.detach().numpy()), rtol=1e-5)
    out.sum().backward()
    assert x.grad.shape == x.shape and y.grad.shape == y.shape
    np.testing.assert_allclose(float(x.grad.sum() + y.grad.sum()), 5000, rtol=1e-4)


def test_numbers_beside_arrays():
    assert lucid.xlogy(lucid.tensor([0.0, 2.0]), 3.0).tolist() == pytest.approx([0, 2 * math.log(3)])
    assert lucid.xlogy(2.0, lucid.tensor([1.0, 3.0])).tolist() == pytest.approx([0, 2 * math.log(3)])


@pytest.mark.parametrize("weight", [0.3, 0.7, np.array(0.3, np.float32)])
def test_steps_of_numbers_alone_have_no_memory_for_others(weight):
    x, y = (np.linspace(k, 3, 90_000, dtype=np.float32).reshape(300, 300) for k in (0, 1))
    found = kernels.reference(P.lerp)(x, y, np.asarray(weight, np.float32))
    np.testing.assert_allclose(found, x + np.float32(weight) * (y - x), rtol=1e-5)
