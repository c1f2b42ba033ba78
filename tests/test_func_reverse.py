"""grad, value_and_grad, grad_and_value and vjp: arguments, structures, refusals, and what lies around them."""

import dataclasses
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid.core import tree
from lucid.func import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    make_graph,
    value_and_grad,
    vjp,
    vmap,
)

A = np.array([0.5, -1.2, 2.0])
B = np.array([1.5, 0.3, -0.7])


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values, dtype=float), **kwargs)


def close(got, want, tol=1e-10):
    assert isinstance(got, lucid.Tensor)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    weight: Any
    bias: Any = None


def cubic(x, y):
    return (x**3 * y**2).sum()


DX, DY = 3 * A**2 * B**2, 2 * A**3 * B


# Which arguments.


@pytest.mark.parametrize(("argnums", "want"), [(0, DX), (1, DY), (-1, DY), (-2, DX)])
def test_argnums_as_a_number(argnums, want):
    got = grad(cubic, argnums)(t(A), t(B))
    close(got, want)


@pytest.mark.parametrize(
    ("argnums", "want"),
    [((0,), [DX]), ((1, 0), [DY, DX]), ([0, 1], [DX, DY]), ((-1, 0), [DY, DX]), ((np.int64(1),), None)],
    ids=str,
)
def test_argnums_as_a_sequence(argnums, want):
    if want is None:
        with pytest.raises(TypeError, match="whole numbers"):
            grad(cubic, argnums)(t(A), t(B))
        return
    got = grad(cubic, argnums)(t(A), t(B))
    assert type(got) is tuple and len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        close(g, w)


@pytest.mark.parametrize("transform", [grad, value_and_grad, grad_and_value, jacrev, jacfwd, hessian])
@pytest.mark.parametrize(
    ("argnums", "error", "words"),
    [
        (2, ValueError, "argnums 2 is out of range for a call with 2 arguments"),
        (-3, ValueError, "argnums -3 is out of range"),
        ((0, 0), ValueError, "twice"),
        ((1, -1), ValueError, "twice"),
        ((), ValueError, "empty"),
        ((0.0,), TypeError, "whole numbers"),
        ((True,), TypeError, "whole numbers"),
        (("x",), TypeError, "whole numbers"),
    ],
    ids=str,
)
def test_bad_argnums(transform, argnums, error, words):
    with pytest.raises(error, match=words):
        transform(cubic, argnums=argnums)(t(A), t(B))


def test_keyword_arguments_pass_through():
    got = grad(lambda x, *, k, name="": (x**k).sum())(t(A), k=3, name="n")
    close(got, 3 * A**2)


def test_arrays_and_numbers_as_arguments():
    close(grad(lambda x: (x**2).sum())(A), 2 * A)
    close(grad(lambda x: x * x)(3.0), 6.0)


# Structures.


def test_nests_of_arguments():
    params = {
        "w": t(A),
        "layers": [t(B), (t(A), None)],
        "pair": Pair(t(A), {"deep": t(B)}),
        "record": Record(t(A), t(B)),
    }

    def f(p):
        deep = p["pair"].second["deep"]
        return (
            (p["w"] * p["layers"][0] * p["layers"][1][0]).sum()
            + (deep * p["pair"].first).sum()
            + (p["record"].weight ** 2).sum()
        )

    got = grad(f)(params)
    close(got["w"], A * B)
    close(got["layers"][0], A * A)
    close(got["layers"][1][0], A * B)
    assert got["layers"][1][1] is None and type(got["layers"]) is list and type(got["layers"][1]) is tuple
    assert type(got["pair"]) is Pair and type(got["record"]) is Record
    close(got["pair"].first, B)
    close(got["pair"].second["deep"], A)
    close(got["record"].weight, 2 * A)
    close(got["record"].bias, 0 * B)


def test_the_order_of_keys_stays_with_the_names():
    got = grad(lambda d: (d["z"] * d["a"] ** 2).sum())({"z": t(A), "a": t(B)})
    close(got["z"], B**2)
    close(got["a"], 2 * A * B)


def test_several_nests():
    got = grad(lambda a, b: (a[0] * b["x"]).sum(), argnums=(0, 1))([t(A)], {"x": t(B)})
    close(got[0][0], B)
    close(got[1]["x"], A)


def test_unused_arguments_have_zero_gradients():
    gx, gy = grad(lambda x, y: (x * 2).sum(), argnums=(0, 1))(t(A), t(B))
    close(gx, 2 + 0 * A)
    close(gy, 0 * B)
    assert gy.shape == (3,) and gy.dtype == lucid.float64
    close(grad(lambda x: lucid.tensor(1.0))(t(A)), 0 * A)
    close(grad(lambda x: (x.detach() * 2).sum())(t(A)), 0 * A)
    assert grad(lambda x, y: x.sum(), argnums=1)(t(A), lucid.ones(2, dtype=lucid.float32)).dtype == lucid.float32


def test_unused_arguments_inside_other_transforms():
    f = grad(lambda x, y: (x**2).sum(), argnums=1)
    close(vmap(f)(t(np.stack([A, B])), t(np.stack([B, A]))), np.zeros((2, 3)))
    primal, tangent = jvp(lambda y: f(t(A), y), (t(B),), (t(A),))
    close(primal, 0 * A)
    close(tangent, 0 * A)
    close(hessian(lambda x: (x * 2).sum())(t(A)), np.zeros((3, 3)))


def test_results_of_one_element():
    close(grad(lambda x: (x**2).sum().reshape(1, 1))(t(A)), 2 * A)


# Values and more.


def test_value_and_grad():
    value, g = value_and_grad(cubic, argnums=1)(t(A), t(B))
    close(value, (A**3 * B**2).sum())
    close(g, DY)


def test_grad_and_value():
    g, value = grad_and_value(cubic, argnums=(0, 1))(t(A), t(B))
    close(value, (A**3 * B**2).sum())
    close(g[0], DX)
    close(g[1], DY)


def with_aux(x, y):
    return cubic(x, y), {"out": x * 2, "text": "kept", "none": None}


def test_has_aux():
    g, aux = grad(with_aux, has_aux=True)(t(A), t(B))
    close(g, DX)
    close(aux["out"], 2 * A)
    assert aux["text"] == "kept" and aux["none"] is None
    (value, aux), g = value_and_grad(with_aux, has_aux=True)(t(A), t(B))
    close(value, (A**3 * B**2).sum())
    close(g, DX)
    close(aux["out"], 2 * A)
    g, (value, aux) = grad_and_value(with_aux, has_aux=True)(t(A), t(B))
    close(g, DX)
    close(value, (A**3 * B**2).sum())
    assert aux["text"] == "kept"


def test_values_and_aux_are_free_of_history():
    (value, aux), g = value_and_grad(with_aux, has_aux=True)(t(A), t(B))
    assert not any(x.requires_grad for x in (value, aux["out"], g))
    _, _, aux = vjp(with_aux, t(A), t(B), has_aux=True)
    assert not aux["out"].requires_grad


def test_aux_can_be_differentiated_from_outside():
    def f(x):
        g, aux = grad(lambda y: ((y**2).sum(), y**3), has_aux=True)(x)
        return (g * aux).sum()

    close(grad(f)(t(A)), 8 * A**3)
    close(jvp(f, (t(A),), (t(B),))[1], (8 * A**3 * B).sum())


def test_has_aux_wants_a_pair():
    for transform in (grad, value_and_grad, grad_and_value):
        with pytest.raises(TypeError, match="pair"):
            transform(lambda x: x.sum(), has_aux=True)(t(A))
    with pytest.raises(TypeError, match="pair"):
        vjp(lambda x: x, t(A), has_aux=True)
    with pytest.raises(TypeError, match="pair"):
        vjp(lambda x: (x, x, x), t(A), has_aux=True)


@pytest.mark.parametrize("transform", [grad, value_and_grad, grad_and_value])
@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: x, ValueError, r"one number.*\(3,\).*jacrev"),
        (lambda x: (x.sum(), x), TypeError, "one tensor, not tuple.*has_aux"),
        (lambda x: 1.0, TypeError, "one tensor, not float"),
        (lambda x: None, TypeError, "not NoneType"),
        (lambda x: (x > 0).sum(), TypeError, "int64"),
        (lambda x: x.argmax(), TypeError, "int64"),
    ],
    ids=["vector", "tuple", "float", "None", "count", "argmax"],
)
def test_bad_results(transform, f, error, words):
    with pytest.raises(error, match="(?s)" + words):
        transform(f)(t(A))


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacrev, jacfwd, hessian])
def test_whole_numbers_have_no_derivative(transform):
    with pytest.raises(TypeError, match=r"(?s)argument 0 \('weights'\).*int64.*\(2,\).*float"):
        transform(lambda weights: weights.sum())(lucid.tensor([1, 2]))


def test_vjp_of_whole_numbers():
    with pytest.raises(TypeError, match=r"(?s)argument 1 \('n'\).*int64"):
        vjp(lambda x, n: x * n, t(A), lucid.tensor([1, 2, 3]))


# vjp.


def test_vjp_gives_a_tuple():
    value, pull = vjp(lambda x, y: x * y, t(A), t(B))
    close(value, A * B)
    gx, gy = pull(t([1.0, 2.0, 3.0]))
    close(gx, B * [1, 2, 3])
    close(gy, A * [1, 2, 3])


def test_vjp_can_be_used_many_times():
    _, pull = vjp(lambda x: x.sin() * x, t(A))
    for ct in (np.ones(3), B, 0 * A):
        close(pull(t(ct))[0], ct * (np.cos(A) * A + np.sin(A)))


def test_vjp_of_nests():
    value, pull = vjp(lambda d: Pair(d["a"] * 2, [d["b"].sum(), None]), {"a": t(A), "b": t(B)})
    assert type(value) is Pair and value.second[1] is None
    (g,) = pull(Pair(t(B), [t(3.0), None]))
    close(g["a"], 2 * B)
    close(g["b"], 3 + 0 * B)


def test_cotangents_take_the_type_of_the_value():
    _, pull = vjp(lambda x: x * 2, t(A).float())
    (g,) = pull(np.ones(3))
    assert g.dtype == lucid.float32
    (g,) = vjp(lambda x: x.sum() * 2, t(A))[1](1)
    close(g, 2 + 0 * A)


@pytest.mark.parametrize(
    ("cotangent", "words"),
    [
        (lambda: (t(A),), r"structure tuple\(\*\).*but the value has"),
        (lambda: {"a": t(A)}, r"structure"),
        (lambda: {"a": t(A), "b": t(A), "c": t(A)}, r"structure"),
        (lambda: {"a": t(A), "b": t(np.ones(2))}, r"cotangents\['b'\] has shape \(2,\).*\(3,\)"),
        (lambda: {"a": t(1.0), "b": t(A)}, r"cotangents\['a'\] has shape \(\).*\(3,\)"),
        (lambda: {"a": t(A), "b": None}, r"structure"),
    ],
    ids=["tuple", "missing", "extra", "shape", "scalar", "None"],
)
def test_wrong_cotangents(cotangent, words):
    _, pull = vjp(lambda x: {"a": x * 2, "b": x**2}, t(A))
    with pytest.raises(ValueError, match="(?s)vjp: .*" + words):
        pull(cotangent())
    close(pull({"a": t(A), "b": t(A)})[0], 2 * A + 2 * A * A)


def test_vjp_results_must_be_tensors():
    with pytest.raises(TypeError, match=r"value\[1\] is a float"):
        vjp(lambda x: (x, 1.0), t(A))


def test_vjp_with_integer_results():
    """What cannot be differentiated takes any cotangent of its shape and gives nothing."""
    value, pull = vjp(lambda x: (x * 2, x.argmax()), t(A))
    assert value[1].item() == 2
    close(pull((t(B), lucid.tensor(0)))[0], 2 * B)


def test_vjp_without_connection():
    _, pull = vjp(lambda x: lucid.ones(2, dtype=lucid.float64), t(A))
    close(pull(t([1.0, 2.0]))[0], 0 * A)


# Complex numbers: the gradient of a real L is dL/dRe + i dL/dIm.

Z = np.array([1.0 + 2.0j, -0.5 + 0.3j])


def ct(z):
    return lucid.tensor(np.asarray(z))


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda z: (z * z.conj()).real.sum(), 2 * Z),
        (lambda z: (z.abs() ** 2).sum(), 2 * Z),
        (lambda z: z.real.sum(), 1 + 0 * Z),
        (lambda z: z.imag.sum(), 1j + 0 * Z),
        (lambda z: (z**2).real.sum(), np.conj(2 * Z)),
        (lambda z: z.exp().imag.sum(), 1j * np.conj(np.exp(Z))),
        (lambda z: ((z * 1j).sin()).real.sum(), np.conj(1j * np.cos(1j * Z))),
    ],
    ids=["conj", "abs", "real", "imag", "square", "exp", "sin"],
)
def test_complex_gradients(f, want):
    close(grad(f)(ct(Z)), want)
    leaf = lucid.tensor(Z, requires_grad=True)
    f(leaf).backward()
    close(leaf.grad, want)
    close(vmap(grad(lambda z: f(z.reshape(1))))(ct(Z)), want)


def test_complex_gradients_descend():
    f = grad(lambda z: ((z - (1 + 2j)).abs() ** 2).sum())
    z = ct(Z)
    for _ in range(50):
        z = z - 0.2 * f(z)
    close(z, np.full(2, 1 + 2j), 1e-6)


def test_real_arguments_of_complex_functions_have_real_gradients():
    g = grad(lambda x: (x * (2 + 3j)).imag.sum())(t(A))
    assert g.dtype == lucid.float64
    close(g, 3 + 0 * A)


def test_complex_vjp_is_the_adjoint():
    _, pull = vjp(lambda z: z * (2 + 1j), ct(Z))
    close(pull(ct(Z))[0], np.conj(2 + 1j) * Z)


def test_complex_results_have_no_gradient_without_a_cotangent():
    def loss(z):
        return (z**2).sum()

    for transform in (grad, value_and_grad, grad_and_value):
        with pytest.raises(ValueError, match=r"take its \.real or \.abs\(\), or use vjp with a cotangent"):
            transform(loss)(ct(Z))
    with pytest.raises(ValueError, match="real number"):
        vmap(grad(loss))(ct(np.stack([Z, Z])))
    close(grad(lambda z: loss(z).real)(ct(Z)), np.conj(2 * Z))
    close(vjp(loss, ct(Z))[1](lucid.tensor(1 + 0j, dtype=lucid.complex128))[0], np.conj(2 * Z))


# Modes.


def test_no_grad_inside_is_obeyed():
    def f(x):
        with lucid.no_grad():
            c = x**2
        return (c * x).sum()

    close(grad(f)(t(A)), A**2)
    close(grad(lambda x: grad(f)(x).sum())(t(A)), 0 * A)


@pytest.mark.parametrize("mode", [lucid.no_grad, lucid.inference_mode])
@pytest.mark.parametrize(
    ("apply", "want"),
    [
        (lambda f: grad(f)(t(A)), 3 * A**2),
        (lambda f: value_and_grad(f)(t(A))[1], 3 * A**2),
        (lambda f: vjp(f, t(A))[1](1.0)[0], 3 * A**2),
        (lambda f: jvp(f, (t(A),), (t(B),))[1], (3 * A**2 * B).sum()),
        (lambda f: hessian(f)(t(A)), np.diag(6 * A)),
        (lambda f: grad(lambda x: grad(f)(x).sum())(t(A)), 6 * A),
        (lambda f: vmap(grad(f))(t(A[None])), 3 * A[None] ** 2),
        (lambda f: linearize(f, t(A))[1](t(B)), (3 * A**2 * B).sum()),
        (lambda f: make_graph(grad(f))(t(B))(t(A)), 3 * A**2),
    ],
    ids=["grad", "value_and_grad", "vjp", "jvp", "hessian", "grad(grad)", "vmap(grad)", "linearize", "make_graph"],
)
def test_modes_outside_do_not_stop_transforms(mode, apply, want):
    with mode():
        got = apply(lambda x: (x**3).sum())
        assert not lucid.is_grad_enabled()
    close(got, want)
    assert not got.requires_grad
    assert lucid.is_grad_enabled() and not lucid.is_inference_mode_enabled()


def test_no_grad_outside_holds_for_tensors_closed_over():
    w = t(B, requires_grad=True)
    with lucid.no_grad():
        g = grad(lambda x: (x**2 * w).sum())(t(A))
    assert not g.requires_grad
    close(g, 2 * A * B)


def test_no_grad_between_two_grads():
    def f(x):
        with lucid.no_grad():
            g = grad(lambda y: (y**3).sum())(x)
        return (g * x).sum()

    close(grad(f)(t(A)), 3 * A**2)


def test_recording_is_on_inside():
    modes = []
    with lucid.no_grad():
        grad(lambda x: modes.append(lucid.is_grad_enabled()) or x.sum())(t(A))
        jvp(lambda x: modes.append(lucid.is_grad_enabled()) or x.sum(), (t(A),), (t(A),))
    assert modes == [True, False]


# The tape around.


def test_arguments_stay_as_they_are():
    x = t(A, requires_grad=True)
    g = grad(lambda y: (y**2).sum())(x)
    assert x.grad is None and x.is_leaf
    close(g, 2 * A)
    g.sum().backward()
    close(x.grad, 2 + 0 * A)


def test_gradients_of_constants_have_no_history():
    assert not grad(lambda y: (y**2).sum())(t(A)).requires_grad


def test_backward_inside_grad_does_not_disturb_it():
    w = t(B, requires_grad=True)

    def f(x):
        loss = (x.detach() * w).sum()
        loss.backward()
        return (x**2 * w.grad).sum()

    close(grad(f)(t(A)), 2 * A * A)
    close(w.grad, A)


def test_gradients_of_overwritten_values_are_refused():
    def f(x):
        y = x.exp()
        y += 1
        return y.sum()

    with pytest.raises(RuntimeError, match="overwritten by an in-place operation"):
        grad(f)(t(A))


def test_the_argument_itself_cannot_be_written():
    """It is a leaf, or on the tape of somebody else."""
    x = t(A)
    with pytest.raises(RuntimeError, match="leaf"):
        grad(lambda y: y.mul_(2).sum())(x)
    close(x, A)


def test_writing_to_a_closed_over_tensor():
    state = t(B)

    def f(x):
        state.add_(x.detach())
        return (x * state).sum()

    close(grad(f)(t(A)), A + B)
    close(state, A + B)


def test_a_write_through_a_view_with_a_cotangent_in_another_order():
    """The cotangent of a transposed value lies in memory column by column."""

    def f(x):
        y = lucid.zeros(2, 3, dtype=lucid.float64)
        y[0] = x
        y.view(6)[5] = x[0] ** 2
        return (y.t() * t([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum()

    close(grad(f)(t(A)), [1.0 + 6 * 2 * A[0], 3.0, 5.0])
    close(vmap(grad(f))(t(np.stack([A, B])))[1], [1.0 + 6 * 2 * B[0], 3.0, 5.0])
    close(hessian(f)(t(A)), np.diag([12.0, 0.0, 0.0]))


def third(x, y):
    return (x * y).sin() * y


@pytest.mark.parametrize("inner", [0, 1, (0, 1)])
@pytest.mark.parametrize("outer", [0, 1, (0, 1)])
def test_results_have_no_history(inner, outer):
    """Variables of a transform inside are nobody's to differentiate by when it is over."""
    x, y = lucid.tensor(0.5), lucid.tensor(2.0)

    def first(x, y):
        found = grad(third, argnums=inner)(x, y)
        return found if isinstance(found, lucid.Tensor) else found[0] + found[1]

    twice = grad(first, argnums=outer)
    thrice = jacrev(twice, argnums=(0, 1))
    for result in (twice(x, y), thrice(x, y), vjp(twice, x, y)[0]):
        assert not any(r.requires_grad for r in tree.flatten(result)[0])


def test_a_gradient_inside_still_reaches_outside():
    x = lucid.tensor(0.5, requires_grad=True)

    def twice(y):
        return grad(lambda y: grad(third, argnums=1)(x, y))(y)

    (by_x,) = lucid.autograd.grad(twice(lucid.tensor(2.0)), [x])
    step = 1e-3
    ahead, behind = (
        grad(lambda y, x=x: grad(third, argnums=1)(x, y))(lucid.tensor(2.0))
        for x in (lucid.tensor(0.5 + step), lucid.tensor(0.5 - step))
    )
    assert abs(by_x.item() - (ahead - behind).item() / (2 * step)) < 1e-2


def test_dicts_keep_their_order():
    """Programs zip the values of parameters and of their gradients."""
    params = {"weight": lucid.tensor([1.0, 2.0]), "bias": lucid.tensor(3.0), "again": {"z": lucid.tensor(1.0)}}
    loss = lambda p: (p["weight"] ** 2).sum() * p["bias"] + p["again"]["z"]  # a function of the nest
    for found in (grad(loss)(params), jacrev(loss)(params), lucid.tree.map(lambda x: 2 * x, params)):
        assert list(found) == ["weight", "bias", "again"]
    assert [g.tolist() for g in list(grad(loss)(params).values())[:2]] == [[6.0, 12.0], 5.0]
    assert lucid.tree.structure(params) == lucid.tree.structure(dict(sorted(params.items())))
    found = lucid.tree.map(lambda x: x + 1, defaultdict(int, b=1, a=2))
    assert dict(found) == {"b": 2, "a": 3} and list(found) == ["b", "a"] and found["c"] == 0
