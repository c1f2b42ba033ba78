"""Tensors of `lucid.torch`: their class, conventions, printing and derivatives."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import lucid.torch.nn as nn
import lucid.torch.nn.functional as F
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.torch import namespaces
from lucid.torch.tensors import Tensor


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


PRINTED = [
    (lambda: torch.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
    (lambda: torch.tensor([1.0, -200.0]), "tensor([   1., -200.])"),
    (lambda: torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: torch.tensor([float("nan"), float("inf"), 0.0]), "tensor([nan, inf, 0.])"),
    (lambda: torch.tensor([[True], [False]]), "tensor([[ True],\n        [False]])"),
    (lambda: torch.tensor(1 - 2.5j), "tensor(1.-2.5000j)"),
    (lambda: torch.zeros(0, 3, dtype=torch.int64), "tensor([], size=(0, 3), dtype=torch.int64)"),
    (lambda: torch.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (lambda: torch.ones(2, dtype=torch.bfloat16), "tensor([1., 1.], dtype=torch.bfloat16)"),
    (lambda: nn.Parameter(torch.ones(1)), "Parameter containing:\ntensor([1.], requires_grad=True)"),
    (
        lambda: torch.full((7,), 0.25, requires_grad=True),
        "tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500],\n       requires_grad=True)",
    ),
]


@pytest.mark.parametrize("make, text", PRINTED, ids=[text.replace("\n", " ") for _, text in PRINTED])
def test_tensors_print_as_in_pytorch(make, text):
    assert repr(make()) == text


def test_numbers_are_formatted_as_such():
    loss = torch.tensor(0.5, requires_grad=True)
    assert f"{loss} {loss:.3f} {loss * 3}" == "0.5 0.500 1.5" and f"{torch.ones(2)}" == "tensor([1., 1.])"


def test_distributions_belong_to_the_front_door():
    distributions = torch.distributions
    normal = distributions.Normal(0.0, 1.0)
    for found in (
        normal.loc,
        normal.sample((2,)),
        distributions.LogNormal(0.0, 1.0).mean,
        distributions.Cauchy(0.0, 1.0).mean,
    ):
        assert type(found) is Tensor
    assert repr(normal) == "Normal(loc: 0.0, scale: 1.0)" and repr(normal.expand((3,)).batch_shape) == "torch.Size([3])"
    assert isinstance(lucid.distributions.Normal(0.0, 1.0), distributions.Normal) and issubclass(
        distributions.Normal, distributions.Distribution
    )
    assert type(pickle.loads(pickle.dumps(normal))) is distributions.Normal
    assert distributions.kl_divergence(normal, distributions.Normal(1.0, 1.0)) == 0.5

    class Own(distributions.Distribution):
        arg_constraints = MappingProxyType({"rate": distributions.constraints.positive})

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        def rsample(self, sample_shape=()):
            return torch.rand(self._extended_shape(sample_shape)) / self.rate

    @distributions.register_kl(Own, distributions.Normal)
    def _(p, q):
        return p.rate

    own = Own(torch.ones(3))
    assert own.rsample((2,)).shape == (2, 3) and distributions.kl_divergence(own, normal).shape == (3,)
    with pytest.raises(ValueError, match="rate"):
        Own(-torch.ones(1))


MADE = {
    "tensor": lambda: torch.tensor([1.0]),
    "as_tensor": lambda: torch.as_tensor([1.0]),
    "from_numpy": lambda: torch.from_numpy(np.ones(2)),
    "zeros": lambda: torch.zeros(2, layout=torch.strided, pin_memory=False),
    "empty": lambda: torch.empty(2, memory_format=torch.contiguous_format),
    "full": lambda: torch.full((2,), 1.0),
    "arange": lambda: torch.arange(3),
    "linspace": lambda: torch.linspace(0, 1, 3),
    "eye": lambda: torch.eye(2),
    "rand": lambda: torch.rand(2),
    "randn": lambda: torch.randn(2, 3),
    "randint": lambda: torch.randint(0, 3, (2,)),
    "randperm": lambda: torch.randperm(3),
    "normal": lambda: torch.normal(0.0, 1.0, (2,)),
    "hann_window": lambda: torch.hann_window(4),
    "tril_indices": lambda: torch.tril_indices(2, 2),
    "empty_strided": lambda: torch.empty_strided((2, 2), (2, 1)),
    "fftfreq": lambda: torch.fft.fftfreq(4),
    "Tensor": lambda: torch.Tensor(2, 3),
    "FloatTensor": lambda: torch.FloatTensor([1, 2]),
    "bernoulli": lambda: torch.bernoulli(torch.full((2,), 0.5)),
    "new_zeros": lambda: torch.ones(1).new_zeros(2),
    "new_tensor": lambda: torch.ones(1).new_tensor([1]),
    "rand_like": lambda: torch.rand_like(torch.ones(2)),
    "zeros_like": lambda: torch.zeros_like(torch.ones(2), memory_format=torch.preserve_format),
    "Parameter": lambda: nn.Parameter(torch.ones(2)),
    "multinomial": lambda: torch.multinomial(torch.ones(3), 2),
    "complex": lambda: torch.complex(torch.ones(1), torch.ones(1)),
    "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_([leaf(1.0)], 1.0),
    "view as another type": lambda: torch.ones(2).view(torch.int32),
    "pad_sequence": lambda: nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)]),
    "one_hot": lambda: F.one_hot(torch.tensor([1])),
    "collated": lambda: torch.utils.data.default_collate([1, 2]),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_of_the_front_door(name):
    assert type(MADE[name]()) is Tensor


def test_functions_that_make_tensors_are_known():
    """Each function of the table that needs no tensor is adapted, and all that are listed exist."""
    adapted = {n for n in lucid.__all__ if namespaces.makes(getattr(lucid, n))}
    assert {n for n in adapted if getattr(torch, n) is getattr(lucid, n)} == set()
    assert {"zeros", "rand", "hann_window", "from_dlpack"} <= adapted
    assert adapted.isdisjoint({"add", "cat", "matmul"})


def test_legacy_constructors():
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor([1, 2]).dtype is torch.float32
    assert torch.Tensor().shape == (0,) and torch.Tensor(torch.Size([4])).shape == (4,)
    assert torch.LongTensor([1.0, 2.0]).tolist() == [1, 2] and torch.DoubleTensor(3).dtype is torch.float64
    x = torch.ones(2)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert x.type() == "torch.FloatTensor" and x.type("torch.LongTensor").dtype is torch.int64
    assert x.type(torch.float64).dtype is x.type(torch.DoubleTensor).dtype is torch.float64


def test_size():
    size = torch.zeros(2, 3, 4).shape
    assert (
        type(size)
        is type(size[1:])
        is type(size.__add__((1,)))
        is type(size + size)
        is type(torch.zeros(2).size())
        is torch.Size
    )
    assert size == (2, 3, 4) and size.numel() == 24 and size[1:].numel() == 12 and size[-1] == 4
    assert repr(size) == "torch.Size([2, 3, 4])" and hash(size) == hash((2, 3, 4))
    assert pickle.loads(pickle.dumps(size)) == size and torch.zeros(size).shape == size
    a, b, c = size
    assert (a, b, c) == (2, 3, 4) and torch.zeros(*size).view(size[0], -1).shape == (2, 12)


def test_isinstance_holds_in_transforms_and_for_tensors_of_lucid():
    assert isinstance(lucid.ones(2), torch.Tensor) and issubclass(lucid.Tensor, torch.Tensor)
    assert not isinstance(np.ones(2), torch.Tensor)

    def f(x):
        assert isinstance(x, torch.Tensor)
        return (x * x).sum()

    assert type(torch.func.grad(f)(torch.ones(2))) is Tensor
    assert type(torch.vmap(f)(torch.ones(2, 2))) is Tensor


def test_data_is_not_counted():
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    x.data.mul_(3)
    assert x.tolist() == [3, 6] and not x.data.requires_grad
    loss.backward()
    assert x.grad.tolist() == [6, 12]
    x.grad.data.zero_()
    assert x.grad.tolist() == [0, 0]
    loss = (x * x).sum()
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()
    x.data = torch.zeros(2)
    assert x.tolist() == [0, 0] and type(x) is Tensor


def test_numpy_refuses_what_requires_grad():
    x = leaf(1.0)
    for call in (x.numpy, lambda: np.asarray(x), (x * 2).numpy):
        with pytest.raises(RuntimeError, match="detach"):
            call()
    assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1.0]
    y = torch.zeros(2)
    y.numpy()[0] = 5
    assert y.tolist() == [5, 0] and np.asarray(y).tolist() == [5, 0]
    assert type(np.exp(y)) is Tensor


def test_printing():
    assert repr(torch.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(torch.zeros(1, dtype=torch.float64)) == "tensor([0.], dtype=torch.float64)"
    assert repr(nn.Parameter(torch.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_memory_formats_are_hints():
    x = torch.randn(1, 2, 3, 3)
    assert x.to(memory_format=torch.channels_last) is x
    assert x.contiguous(memory_format=torch.channels_last).is_contiguous(memory_format=torch.contiguous_format)
    assert x.clone(memory_format=torch.preserve_format).equal(x)
    assert nn.Conv2d(2, 1, 3).to(memory_format=torch.channels_last)(x).shape == (1, 1, 1, 1)
    assert x.layout is torch.strided and x.is_cpu and not x.is_cuda and x.pin_memory() is x


def test_writes_by_masks_and_integer_powers():
    x = torch.arange(4)
    x[x > 1] = torch.tensor([10, 20])
    assert x.tolist() == [0, 1, 10, 20] and (x**2).tolist() == [0, 1, 100, 400]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        torch.tensor([2]) ** torch.tensor([-1])
    out = torch.empty(0)
    torch.add(torch.ones(2), 1, out=out)
    assert out.tolist() == [2, 2]


def test_grad_is_a_tuple():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    found = torch.autograd.grad((x * y).sum(), x, only_inputs=True)
    assert type(found) is tuple and type(found[0]) is Tensor and found[0].tolist() == [3, 4]
    a, b = torch.autograd.grad(x.sum(), [x, y], allow_unused=True)
    assert a.tolist() == [1, 1] and b is None
    a, b = torch.autograd.grad(x.sum(), (x, y), materialize_grads=True)
    assert type(b) is Tensor and b.tolist() == [0, 0]
    with pytest.raises(ValueError, match="only_inputs"):
        torch.autograd.grad(x.sum(), x, only_inputs=False)


def test_functional_keeps_the_graph_if_asked():
    x = leaf(1.0, 2.0)
    functional = torch.autograd.functional
    j = functional.jacobian(lambda t: t**3, x, create_graph=True)
    j.sum().backward()
    assert x.grad.tolist() == [6, 12] and not functional.jacobian(lambda t: t**3, x).requires_grad
    (a, b) = functional.jacobian(lambda s, t: (s * t, s + t), (x, x))
    assert a[0].tolist() == [[1, 0], [0, 2]] and b[1].tolist() == [[1, 0], [0, 1]]
    assert type(a[0]) is Tensor
    h = functional.hessian(lambda s, t: (s * t).sum(), (x, x))
    assert h[0][1].tolist() == [[1, 0], [0, 1]] and h[0][0].tolist() == [[0, 0], [0, 0]]
    out, v = functional.vjp(lambda t: (t**2).sum(), x)
    assert out.item() == 5 and v.tolist() == [2, 4]
    assert functional.jacobian(torch.sin, x, strategy="forward-mode", vectorize=True).allclose(
        torch.diag(x.detach().cos())
    )
    with pytest.raises(ValueError, match="strict"):
        functional.jacobian(torch.sin, x, strict=True)


def test_anomaly_mode_and_variables():
    x = torch.autograd.Variable(torch.zeros(1), requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="sqrt"):
        x.sqrt().sum().backward()
    x.sqrt().sum().backward()


def test_distributions_keep_the_class_and_have_the_paths_of_their_modules():
    from lucid.torch.distributions import Categorical, Normal, constraints, kl_divergence
    from lucid.torch.distributions.normal import Normal as ByPath

    assert ByPath is Normal and constraints.positive.check(torch.ones(1)).all()
    mean = torch.zeros(3, requires_grad=True)
    drawn = Normal(mean, torch.ones(3)).rsample()
    assert type(drawn) is torch.Tensor and drawn.shape.numel() == 3
    drawn.sum().backward()
    assert mean.grad.tolist() == [1.0, 1.0, 1.0]
    assert kl_divergence(Normal(mean, torch.ones(3)), Normal(torch.ones(3), torch.ones(3))).tolist() == [0.5, 0.5, 0.5]
    choice = Categorical(logits=torch.zeros(4, 5))
    assert choice.log_prob(choice.sample()).shape == (4,)


def test_bytes_are_masks_where_they_index():
    x = torch.arange(6.0).reshape(3, 2)
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    assert x[mask].tolist() == [[0, 1], [4, 5]]
    assert x[mask, 0].tolist() == [0, 4]
    assert x[(x > 2).byte()].tolist() == [3, 4, 5]
    x[mask] = -1
    x[:, torch.tensor([0, 1], dtype=torch.uint8)] *= 2
    assert x.tolist() == [[-1, -2], [2, 6], [-1, -2]]
    y = torch.ones(3, requires_grad=True)
    (y[mask] * 3).sum().backward()
    assert y.grad.tolist() == [3, 0, 3]
    plain = lucid.arange(3.0)[lucid.tensor([1, 0, 1], dtype=lucid.uint8)]
    assert plain.tolist() == [1, 0, 1]  # as in NumPy


def test_draws_of_one_probability_are_of_the_front_door():
    assert repr(torch.zeros(2).bernoulli(1.0)) == "tensor([1., 1.])"


def test_layouts_and_shapes_of_sparse_tensors():
    x = torch.eye(3)
    sparse = x.to_sparse()
    assert (repr(x.layout), repr(sparse.layout), repr(torch.sparse_csr)) == (
        "torch.strided",
        "torch.sparse_coo",
        "torch.sparse_csr",
    )
    assert (
        x.layout is torch.strided and sparse.layout is torch.sparse_coo and x.to_sparse_csr().layout == torch.sparse_csr
    )
    assert sparse.layout == lucid.sparse_coo and sparse.layout != torch.strided and lucid.eye(2).layout is lucid.strided
    assert pickle.loads(pickle.dumps(torch.strided)) is torch.strided
    assert sparse.shape.numel() == 9 and isinstance((sparse @ sparse).shape, torch.Size)
    assert x.to_sparse(layout=torch.sparse_csr).layout is torch.sparse_csr
    assert type(lucid.eye(2).to_sparse().shape) is tuple


def test_what_no_argument_took_part_in_is_of_the_front_door_too():
    d, x = torch.distributions, torch.ones(2)
    affine = d.transforms.AffineTransform(1.0, 2.0)
    made = [
        d.Categorical(torch.ones(2, 3)).enumerate_support(),
        d.OneHotCategorical(torch.ones(2)).enumerate_support(),
        d.Bernoulli(torch.tensor([0.5])).enumerate_support(),
        affine.log_abs_det_jacobian(x, affine(x)),
        d.constraints.square.check(torch.eye(2)),
        torch.func.jacrev(lambda b: b + torch.ones(2, 2))(x),
        torch.func.jacfwd(lambda b: (b, 2 * b))(x)[0],
        reversed(x),
    ]
    assert [type(t) for t in made] == [Tensor] * len(made)
    assert reversed(torch.arange(3)).tolist() == [2, 1, 0] and reversed(torch.tensor(3)).item() == 3


def test_a_distribution_may_say_how_draws_are_made_alone():
    class Shifted(torch.distributions.Distribution):
        arg_constraints, has_rsample = {}, True

        def __init__(self, loc):
            self.loc = loc
            super().__init__(loc.shape, validate_args=False)

        def rsample(self, sample_shape=()):
            return self.loc + torch.zeros(self._extended_shape(sample_shape))

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.loc = self.loc.expand(batch_shape)
            super(Shifted, new).__init__(torch.Size(batch_shape), validate_args=False)
            return new

    shifted = Shifted(torch.tensor([1.0], requires_grad=True)).expand((3,))
    assert shifted.rsample((2,)).requires_grad and not shifted.sample((2,)).requires_grad
    assert shifted.sample((2,)).tolist() == [[1, 1, 1]] * 2 and type(shifted) is Shifted

    class Named(torch.distributions.Normal):
        def __init__(self, loc, scale, name):
            super().__init__(loc, scale)
            self.name = name

    with pytest.raises(NotImplementedError, match=r"custom \.expand\(\)"):
        Named(0.0, 1.0, "a")._get_checked_instance(torch.distributions.Normal)


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_lower_triangles_are_vectors(diag):
    from lucid.torch.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    matrix = torch.arange(1.0, 17.0).reshape(4, 4).tril(diag)
    assert torch.equal(vec_to_tril_matrix(tril_matrix_to_vec(matrix, diag), diag), matrix)
    with pytest.raises(ValueError, match="do not fill"):
        vec_to_tril_matrix(torch.ones(4 if diag else 5))


def test_truth_values_are_not_subtracted():
    for refused in (lambda: -torch.tensor([True]), lambda: torch.tensor([True]) - torch.tensor([True])):
        with pytest.raises(RuntimeError, match="bool"):
            refused()
    with pytest.raises(RuntimeError, match="real"):
        torch.tensor([1j]) < torch.tensor([1j])  # noqa: B015
    assert torch.empty(0, 3).stride() == (3, 1) and torch.empty(2, 0, 3).stride() == (3, 3, 1)


def test_methods_take_their_older_form_too():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.equal(x.add(0.5, y), x.add(y, alpha=0.5)) and torch.equal(x.sub(2, y), x - 2 * y)
    assert torch.equal(x.addcmul(0.5, y, y), x + 0.5 * y * y) and torch.equal(x.addcdiv(2, y, x), x + 2 * y / x)
    for name, given, wanted in (
        ("add_", (0.5, y), x + 0.5 * y),
        ("sub_", (2, y), x - 2 * y),
        ("addcmul_", (0.5, y, y), x + 0.5 * y * y),
        ("addcdiv_", (2, y, x), x + 2 * y / x),
    ):
        changed = x.clone()
        assert getattr(changed, name)(*given) is changed and torch.equal(changed, wanted)
    assert torch.equal(torch.add(x, 0.5, y), x + 0.5 * y) and torch.equal(torch.subtract(x, 2, y), x - 2 * y)
    assert torch.equal(torch.addcmul(x, 2, y, y), x + 2 * y * y) and torch.equal(
        torch.addcdiv(x, 2, y, x), x + 2 * y / x
    )
    assert torch.equal(torch.add(x, y, alpha=3), x + 3 * y) and torch.equal(torch.add(input=x, other=y), x + y)
    room = torch.empty_like(x)
    assert torch.add(x, 0.5, y, out=room) is room and torch.equal(room, x + 0.5 * y)
    for wrong in (
        lambda: torch.add(x, y, y),
        lambda: torch.add(x, 1, 2),
        lambda: torch.add(x),
        lambda: lucid.add(x, 2, y),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        x.clone().add_(y, y)
    with pytest.raises(TypeError):
        lucid.ones(2).add_(0.5, lucid.ones(2))


SEVERAL = {
    "max": lambda x: x.max(1),
    "min": lambda x: torch.min(x, 0, keepdim=True),
    "sort": lambda x: x.sort(),
    "topk": lambda x: torch.topk(x, 1),
    "kthvalue": lambda x: x.kthvalue(1),
    "median": lambda x: x.median(0),
    "nanmedian": lambda x: x.nanmedian(0),
    "mode": lambda x: x.mode(),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x[0, 0].cummin(0),
    "aminmax": lambda x: x.aminmax(),
    "frexp": torch.frexp,
    "histogram": lambda x: torch.histogram(x, 2),
    "linalg_eigh": torch.linalg.eigh,
    "linalg_eig": torch.linalg.eig,
    "linalg_svd": torch.linalg.svd,
    "linalg_qr": torch.linalg.qr,
    "linalg_slogdet": torch.linalg.slogdet,
    "svd": torch.svd,
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_have_their_type_and_print_with_it(name):
    found = SEVERAL[name](torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    entries = [f"{field}={value!r}" for field, value in zip(found._fields, found, strict=True)]
    assert repr(found) == f"torch.return_types.{name}(\n" + ",\n".join(entries) + ")"
    assert type(found) is getattr(torch.return_types, name) and name in dir(torch.return_types)
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found) and repr(again) == repr(found)


def test_several_results_of_lucid_print_as_its_own():
    assert repr(lucid.tensor([1.0, 2.0]).max(0)) == "Max(values=Tensor(2.), indices=Tensor(1))"
    assert repr(torch.var_mean(torch.tensor([1.0, 3.0]))) == "(tensor(2.), tensor(2.))"


def test_lists_of_tensors_at_once():
    xs, ys = [torch.ones(1), torch.zeros(2)], [torch.full((1,), 2.0), torch.full((2,), 3.0)]
    assert torch._foreach_add_(xs, ys, alpha=2) is xs and [x.tolist() for x in xs] == [[5], [6, 6]]
    for found, wanted in (
        (torch._foreach_mul(xs, [2, 3]), [x * k for x, k in zip(xs, (2, 3), strict=True)]),
        (torch._foreach_lerp(xs, ys, 0.5), [x.lerp(y, 0.5) for x, y in zip(xs, ys, strict=True)]),
        (torch._foreach_addcmul(xs, ys, ys, [1.0, 2.0]), [xs[0] + ys[0] ** 2, xs[1] + 2 * ys[1] ** 2]),
        (
            torch._foreach_addcdiv(xs, ys, xs, torch.tensor([1.0, 2.0])),
            [xs[0] + ys[0] / xs[0], xs[1] + 2 * ys[1] / xs[1]],
        ),
        (torch._foreach_norm(xs, 1), [x.abs().sum() for x in xs]),
        (torch._foreach_pow(2.0, ys), [2**y for y in ys]),
        (torch._foreach_sqrt(ys), [y.sqrt() for y in ys]),
    ):
        assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True)) and type(found) is tuple
    with pytest.raises(AttributeError):
        torch._foreach_nothing  # noqa: B018


def test_gradients_by_edges():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    edge, leaf = (torch.autograd.graph.get_gradient_edge(t) for t in (y, x))
    z = (y**2).sum()
    del y  # the edge holds the graph, not the tensor
    found = torch.autograd.grad(z, [edge, leaf])
    assert [g.tolist() for g in found] == [[4.0, 8.0], [8.0, 16.0]] and all(type(g) is torch.Tensor for g in found)
    w = (x * 5).sum()
    (g,) = torch.autograd.grad(torch.autograd.graph.get_gradient_edge(w), x, torch.tensor(2.0))
    assert g.tolist() == [10.0, 10.0]
    assert edge.output_nr == 0 and len(edge) == 2 and leaf.node.variable is x
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.graph.get_gradient_edge(torch.ones(2))


def test_shapes_of_the_front_door_are_taken_everywhere():
    """`torch.Size` is a tuple of another class, which compiled code must not refuse."""
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    size = x.shape
    assert torch.rand(size).shape == torch.empty(size).uniform_().shape == torch.Size([2, 3])
    assert torch.take_along_dim(x, torch.tensor([[0], [2]]), 1).tolist() == [[0.0], [5.0]]
    (found,) = torch.autograd.grad(x * 2, x, torch.ones(4, *size), is_grads_batched=True)
    assert found.shape == (4, 2, 3) and x.sum(size[:0]).item() == 15
    assert torch.zeros(size).scatter_(1, torch.zeros(size, dtype=torch.int64), 1.0).shape == size
    assert x.gather(1, torch.zeros(size, dtype=torch.int64)).expand(size).reshape(size).shape == size


def made_in_inference_mode():
    with torch.inference_mode():
        return torch.ones(2)


def test_what_inference_mode_marks():
    normal, w = torch.ones(2), leaf(1.0, 2.0)
    with torch.inference_mode():
        made = [
            torch.ones(2),
            w * 2,
            normal.clone(),
            normal.int(),
            torch.from_numpy(np.ones(2)),
            nn.Linear(2, 1).weight,
        ]
        shown = [normal.view(2), w[:1], normal.detach(), normal]
        normal.add_(1)
        with torch.inference_mode(False):
            shown += [torch.ones(2), made[0] * 2]
        with lucid.inference_mode():  # which is as no_grad, and marks nothing
            shown.append(torch.ones(2))
    assert all(t.is_inference() for t in made) and not any(t.is_inference() for t in shown)
    x = made[0]
    assert x.is_leaf and x.view(2).is_inference() and x[:1].is_inference() and x.detach().is_inference()
    assert x.data.is_inference() and not (x + 1).is_inference() and not x.clone().is_inference()
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert not twin.is_inference()
    assert torch.is_inference(x) and not torch.is_inference(normal) and not torch.is_inference_mode_enabled()


def test_inference_mode_is_a_decorator_and_ends():
    @torch.inference_mode()
    def made():
        assert torch.is_inference_mode_enabled()
        return torch.ones(2)

    @torch.inference_mode
    def failing():
        raise KeyError

    assert made().is_inference()
    with pytest.raises(KeyError):
        failing()
    assert not torch.ones(2).is_inference()


def test_what_is_made_in_inference_mode_is_not_written_outside():
    x = made_in_inference_mode()
    writes = [
        lambda: x.add_(1), lambda: x.mul_(torch.ones(2)), lambda: x.view(2).zero_(), lambda: x.__setitem__(0, 3.0),
        lambda: torch.no_grad()(lambda: x.fill_(2.0))(), lambda: torch.exp(torch.ones(2), out=x),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(RuntimeError, match="inference mode"):
            write()
    assert x.tolist() == [1.0, 1.0]
    with torch.inference_mode():
        assert x.add_(1).tolist() == [2.0, 2.0]


def test_what_is_made_in_inference_mode_is_not_saved_for_gradients():
    x, w = made_in_inference_mode(), leaf(3.0, 4.0)
    for recorded in (lambda: x * w, lambda: w.clone().mul_(x), lambda: F.linear(x, w.view(1, 2)), lambda: x[:1] * w):
        with pytest.raises(RuntimeError, match="inference mode"):
            recorded()
    for setting in (lambda: x.requires_grad_(), lambda: nn.Parameter(x), lambda: setattr(x, "requires_grad", True)):
        with pytest.raises(RuntimeError, match="inference mode"):
            setting()
    assert x.requires_grad_(False) is x
    # What no derivative needs may take part, and so may copies.
    (x + w).sum().backward()
    (x.clone() * w).sum().backward()
    torch.cat([x, w]).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with torch.no_grad():
        assert (x * w).tolist() == [3.0, 4.0]
    # The function that a transform differentiates is its own computation.
    assert torch.func.grad(lambda v: (v * x).sum())(torch.ones(2)).tolist() == [1.0, 1.0]
    assert torch.func.grad(lambda v: (v * v).sum())(x).tolist() == [2.0, 2.0]
    assert torch.func.vmap(lambda v: v * 2)(x).tolist() == [2.0, 2.0]


def test_parameters_made_in_inference_mode_are_differentiated():
    with torch.inference_mode():
        layer, p = nn.Linear(2, 1), torch.ones(2, requires_grad=True)
    (p * p).sum().backward()
    layer(torch.ones(1, 2)).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0] and layer.weight.grad.tolist() == [[1.0, 1.0]]


def test_inference_mode_holds_for_its_thread():
    with torch.inference_mode(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(lambda: torch.ones(2).is_inference()).result()
        assert torch.ones(2).is_inference()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16])
def test_nan_and_infinities_as_integers(kind):
    """Buckets of relative positions take the logarithm of 0, convert it, and choose others in its place."""
    x = torch.tensor([1.5, float("inf"), float("nan"), -float("inf"), -3.7], dtype=kind)
    for found in (x.long(), x.to(torch.int64), x.type(torch.LongTensor), x.to("cpu", torch.long)):
        assert found.tolist() == [1, *[-(2**63)] * 3, -3] and type(found) is Tensor and found.dtype is torch.int64
    assert x.int().tolist() == [1, *[-(2**31)] * 3, -3] and x.short().tolist() == [1, 0, 0, 0, -3]
    assert x.bool().all() and x.double().isnan().sum() == 1
    with pytest.raises(ValueError, match="nan or inf"):
        lucid.tensor(x.tolist()).long()
    n = torch.arange(4)
    large = 2 + (torch.log(n.float() / 2) / math.log(4) * 2).long()
    assert torch.where(n < 2, n, large).tolist() == [0, 1, 2, 2]


def test_tangents_of_tangents_seen_through_views():
    """Shapes are of a class of their own here, also where tangents are laid out like what they belong to."""
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)

    def function(x):
        q, r = torch.linalg.qr(turn * x[0] + torch.outer(x, x))
        return (q.mT @ r).sum(0)

    x = torch.tensor([0.7, -1.3], dtype=torch.float64)
    forward = torch.func.jacfwd(torch.func.jacfwd(function))(x)
    assert torch.allclose(forward, torch.func.jacrev(torch.func.jacrev(function))(x))
