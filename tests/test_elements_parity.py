"""Elementwise names, in-place forms and out= beside PyTorch's: what it has, what it gives, where it refuses."""

import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest

import lucid

torch = pytest.importorskip("torch")

# In-place methods of PyTorch that make no sense here, with the reason.
WITHOUT = {
    "resize_as_sparse_": "sparse layouts",
    "sparse_resize_": "sparse layouts",
    "sparse_resize_and_clear_": "sparse layouts",
}


def test_every_in_place_method_is_there():
    theirs = {n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_")}
    missing = {n for n in theirs if not hasattr(lucid.Tensor, n)}
    assert missing == set(WITHOUT)


def test_every_function_with_out_has_it_here():
    stub = Path(torch.__file__).parent / "_C" / "_VariableFunctions.pyi"
    found = re.findall(r"def (\w+)\((.*?)\n?\) -> ", stub.read_text("utf-8"), re.DOTALL)
    theirs = {name for name, parameters in found if re.search(r"\bout:", parameters)} | {"norm", "tensordot"}
    ours = set(lucid.__all__) & theirs
    assert len(ours) > 200
    lacking = [
        n for n in sorted(ours) if "out" not in inspect.signature(getattr(lucid, n), follow_wrapped=False).parameters
    ]
    assert not lacking


DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64", "complex128")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -2.6, 37.5, math.inf, -math.inf, math.nan]
UNARY = [
    *"deg2rad rad2deg signbit isposinf isneginf isreal positive frexp angle sgn fix conj_physical real".split(),
    *"absolute arccos arccosh arcsin arcsinh arctan arctanh negative".split(),
]
BINARY = [
    *"logaddexp logaddexp2 heaviside nextafter ldexp gcd lcm rsub arctan2 divide multiply subtract greater less".split(),
    *"greater_equal less_equal not_equal clamp_min clamp_max float_power true_divide".split(),
]
# Where PyTorch refuses a type that has an answer here.
MORE = {
    ("fix", "bool"),
    *((name, kind) for name in ("logaddexp", "logaddexp2") for kind in ("int64", "uint8", "bool")),
    ("absolute", "bool"),
}


def operands(count, kind):
    if kind.startswith(("float", "bfloat")):
        values = SPECIAL
    elif kind.startswith("complex"):
        values = [1 + 2j, 0j, -3 + 0.5j, 0.25 - 1j]
    else:
        values = [0, 1, 2, 12, 18, 5]
    first = torch.tensor(values).to(getattr(torch, kind))
    pairs = [first] if count == 1 else [x.reshape(-1).clone() for x in torch.meshgrid(first, first, indexing="ij")]
    return pairs, [lucid.tensor(x.tolist(), dtype=getattr(lucid, kind)) for x in pairs]


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_values_and_types(name, kind):
    theirs, ours = operands(1 if name in UNARY else 2, kind)
    if name == "float_power" and "complex" in kind:  # 0 to the power of 0 is 1 here
        theirs, ours = ([x[xs[0] != 0] for x in xs] for xs in (theirs, ours))
    if name == "sgn":  # of nan it is nan here
        theirs, ours = ([x[x == x] for x in xs] for xs in (theirs, ours))
    try:
        want = as_list(getattr(torch, name)(*theirs))
    except (RuntimeError, TypeError):
        if (name, kind) not in MORE:
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                getattr(lucid, name)(*ours)
        return
    got = as_list(getattr(lucid, name)(*ours))
    for g, w in zip(got, want, strict=True):
        assert str(g.dtype).split(".")[1] == str(w.dtype).split(".")[1]
        tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12, "complex128": 1e-12}.get(kind, 2e-6)
        a, b = (np.array(x.tolist()) for x in (g, w))
        np.testing.assert_allclose(a, b, tolerance, tolerance)


@pytest.mark.parametrize("name", ["ldexp", "logaddexp", "logaddexp2", "polar", "complex", "rsub", "clamp_min"])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_gradients(name, kind):
    if kind == "complex128" and name in ("polar", "complex", "logaddexp2", "clamp_min"):
        return
    rng = np.random.default_rng(3)
    # PyTorch's derivative of polar holds for sizes that are positive.
    arrays = [rng.normal(size=(2, 3)) + (1j * rng.normal(size=(2, 3)) if kind == "complex128" else 0) for _ in range(2)]
    arrays[0] = abs(arrays[0]) if name == "polar" else arrays[0]
    weight = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    gradients = []
    for library in (torch, lucid):
        x, y = (library.tensor(a, requires_grad=True) for a in arrays)
        out = getattr(library, name)(x, y)
        (out * library.tensor(weight)).real.sum().backward()
        gradients.append([x.grad.numpy(), y.grad.numpy()])
    for got, want in zip(gradients[1], gradients[0], strict=True):
        np.testing.assert_allclose(got, want, 1e-10, 1e-12)


def run_both(program):
    """What a program gives in each library: its value, or the word "refused"."""
    results = []
    for library in (torch, lucid):
        try:
            results.append(np.array(program(library).tolist()))
        except RuntimeError:
            results.append("refused")
    return results


def written_parts(library):
    z = library.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    a = z * 1
    a.real.mul_(3)
    a.imag[0] = 5.0
    a.real = a.real + a.imag
    (a * a.conj()).real.sum().backward()
    return z.grad


def part_of_a_leaf(library):
    z = library.tensor([1 + 2j], requires_grad=True)
    z.real.mul_(2)
    return z


def through_view_as_complex(library):
    x = library.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a = x * 1
    library.view_as_complex(a).mul_(1j)
    (a * a * a).sum().backward()
    return x.grad


def transposed_in_place(library):
    x = library.arange(6.0).reshape(2, 3).clone().requires_grad_()
    a = x * 2
    a.t_().unsqueeze_(0)
    (a * library.arange(6.0).reshape(1, 3, 2)).sum().backward()
    return x.grad


def transposed_after_saving(library):
    x = library.arange(6.0).reshape(2, 3).clone().requires_grad_()
    a = x * 2
    loss = (a * a).sum()
    a.t_()
    loss.backward()
    return x.grad


def output_reshaped(library):
    x = library.arange(6.0).reshape(2, 3).clone().requires_grad_()
    a = x.exp()
    a.unsqueeze_(0)
    a.sum().backward()
    return x.grad


def leaf_transposed(library):
    return library.ones(2, 3, requires_grad=True).t_()


def view_of_a_leaf(library):
    return library.ones(2, 3, requires_grad=True)[0].unsqueeze_(0)


def view_reshaped_then_written(library):
    x = library.arange(6.0).reshape(2, 3).clone().requires_grad_()
    a = x * 2
    v = a[0]
    v.unsqueeze_(0)
    v.mul_(5)
    (a * a).sum().backward()
    return x.grad


def resized_with_grad(library):
    return library.ones(3, requires_grad=True).resize_(2)


def resized(library):
    return library.arange(6).resize_(2, 2)


def scanned(library):
    x = library.arange(1.0, 7.0).reshape(2, 3).clone().requires_grad_()
    a = x * 2
    a.cumsum_(1).tril_()
    a.fill_diagonal_(3)
    (a * a).sum().backward()
    return x.grad


def products(library):
    x = library.arange(1.0, 5.0).reshape(2, 2).clone().requires_grad_()
    a = x * 2
    a.addmm_(x, x, beta=0.5, alpha=2)
    a.addr_(x[0], x[1])
    (a * a).sum().backward()
    return x.grad


def wrapped_diagonal(library):
    return library.zeros(7, 2).fill_diagonal_(4, wrap=True)


@pytest.mark.parametrize(
    "program",
    [
        written_parts, part_of_a_leaf, through_view_as_complex, transposed_in_place, transposed_after_saving,
        output_reshaped, leaf_transposed, view_of_a_leaf, view_reshaped_then_written, resized_with_grad, resized,
        scanned, products, wrapped_diagonal,
    ],
)  # fmt: skip
def test_programs(program):
    theirs, ours = run_both(program)
    if isinstance(theirs, str):
        assert isinstance(ours, str), f"PyTorch refuses, and here the result is {ours}"
    else:
        np.testing.assert_allclose(ours, theirs, 1e-5)
