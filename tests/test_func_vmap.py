"""vmap: which dimensions are batches, structures, chunks, refusals, and results of many kinds."""

import copy
import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import lucid
from lucid.func import grad, jvp, vmap

rng = np.random.default_rng(0)
A = rng.standard_normal((4, 3, 2))


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values), **kwargs)


def close(got, want, tol=1e-12):
    assert isinstance(got, lucid.Tensor)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=tol, atol=tol)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    weight: Any
    bias: Any


# Dimensions of arguments and results.


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_in_dims_chooses_the_batch(dim):
    got = vmap(lambda x: x.exp().sum(0), in_dims=dim)(t(A))
    close(got, np.exp(np.moveaxis(A, dim, 0)).sum(1))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_out_dims_places_the_batch(dim):
    got = vmap(lambda x: x * 2, out_dims=dim)(t(A))
    close(got, np.moveaxis(A * 2, 0, dim))


@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("out_dim", [0, 1, -1])
def test_in_and_out_dims(in_dim, out_dim):
    got = vmap(lambda x: x @ x.mT, in_dims=in_dim, out_dims=out_dim)(t(A))
    rows = np.moveaxis(A, in_dim, 0)
    close(got, np.moveaxis(rows @ rows.swapaxes(-1, -2), 0, out_dim))


def test_a_shared_argument():
    w = rng.standard_normal((3, 5))
    got = vmap(lambda x, w: x.sum(1) @ w, in_dims=(0, None))(t(A), t(w))
    close(got, A.sum(2) @ w)
    got = vmap(lambda w, x: x.sum(1) @ w, in_dims=[None, 0])(t(w), t(A))
    close(got, A.sum(2) @ w)


def test_different_dims_for_each_argument():
    b = rng.standard_normal((3, 4))
    got = vmap(lambda x, y: x * y[:, None], in_dims=(0, 1))(t(A), t(b))
    close(got, A * b.T[:, :, None])


def test_one_in_dim_for_all_arguments():
    got = vmap(lambda x, y: x + y, in_dims=-1)(t(A), t(2 * A))
    close(got, np.moveaxis(3 * A, -1, 0))


def test_a_nest_of_in_dims():
    x, y, z = A[0], A[1], rng.standard_normal(3)

    def f(args, record):
        (a, [b]), c = args, record["c"]
        return a.sum() * b.sum() + c

    got = vmap(f, in_dims=((0, [1]), {"c": None}))((t(x), [t(y.T)]), {"c": t(2.0)})
    close(got, x.sum(1) * y.sum(1) + 2.0)
    got = vmap(f, in_dims=(0, {"c": 0}))((t(x), [t(y)]), {"c": t(z)})
    close(got, x.sum(1) * y.sum(1) + z)


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_dicts(kind):
    tree = kind(b=t(A), a=t(A[0]))
    got = vmap(lambda d: kind(total=d["b"].sum() + d["a"].sum()), in_dims=({"b": 0, "a": None},))(tree)
    assert type(got) is kind
    close(got["total"], A.sum((1, 2)) + A[0].sum(), 1e-11)


def test_named_tuples():
    got = vmap(lambda p: Pair(p.first * p.second, p.second + 1), in_dims=(Pair(0, None),))(Pair(t(A), t(2.0)))
    assert type(got) is Pair
    close(got.first, A * 2)
    close(got.second, np.full(4, 3.0))


def test_dataclasses():
    got = vmap(lambda r: Record(r.weight * 2, r.bias.sum()), in_dims=(Record(1, None),))(Record(t(A), t(A[0, 0])))
    assert type(got) is Record
    close(got.weight, np.moveaxis(2 * A, 1, 0))
    close(got.bias, np.full(3, A[0, 0].sum()))
    everywhere = vmap(lambda r: r.weight + r.bias)(Record(t(A), t(A)))
    close(everywhere, 2 * A)


def test_none_in_a_nest_stays_none():
    got = vmap(lambda p: (p[0] * 2, None))((t(A), None))
    close(got[0], 2 * A)
    assert got[1] is None


def test_a_nest_of_out_dims():
    def f(x):
        return {"a": x, "b": [x.t(), x.sum()]}

    got = vmap(f, out_dims={"a": 1, "b": [-1, 0]})(t(A))
    close(got["a"], np.moveaxis(A, 0, 1))
    close(got["b"][0], np.moveaxis(A.swapaxes(1, 2), 0, -1))
    close(got["b"][1], A.sum((1, 2)))


def test_out_dims_of_dataclasses_and_named_tuples():
    got = vmap(lambda x: Record(x, Pair(x, x.sum())), out_dims=Record(2, Pair(1, 0)))(t(A))
    close(got.weight, np.moveaxis(A, 0, 2))
    close(got.bias.first, np.moveaxis(A, 0, 1))
    close(got.bias.second, A.sum((1, 2)))


def test_out_dims_none_keeps_what_all_examples_share():
    c = t([1.0, 2.0])
    got, scaled = vmap(lambda x: (c * 3, x * 2), out_dims=(None, 0))(t(A))
    close(got, [3.0, 6.0])
    close(scaled, 2 * A)


def test_results_that_do_not_depend_on_the_batch_repeat():
    got = vmap(lambda x: lucid.ones(2))(t(A))
    close(got, np.ones((4, 2)))
    got = vmap(lambda x: t(A[0]), out_dims=1)(t(A))
    close(got, np.repeat(A[0][:, None], 4, axis=1))


def test_keyword_arguments_are_shared():
    def f(x, *, scale, name):
        assert name == "kept" and scale.shape == (3, 1)
        return x * scale

    got = vmap(f)(t(A), scale=t(A[0, :, :1]), name="kept")
    close(got, A * A[0, :, :1])


def test_static_arguments_with_none():
    close(vmap(lambda x, n, word: x**n, in_dims=(0, None, None))(t(A), 2, "word"), A**2)


def test_arrays_and_lists_as_arguments():
    close(vmap(lambda x: x.sum())(A), A.sum((1, 2)))


def test_the_wrapper_keeps_the_name():
    def total(x):
        """Sum."""
        return x.sum()

    assert vmap(total).__name__ == "total" and vmap(total).__doc__ == "Sum."


def test_shapes_inside_are_those_of_one_example():
    seen = []

    def f(x):
        seen.append((x.shape, x.ndim, x.numel(), x.dtype, len(x), x.size(0)))
        return x

    vmap(vmap(f))(t(A))
    assert seen == [((2,), 1, 2, lucid.float64, 2, 2)]


def test_non_contiguous_inputs():
    big = rng.standard_normal((6, 4, 8))
    part = big[::2, :, ::2]
    view = t(big)[::2, :, ::2]
    close(vmap(lambda x: x.cumsum(0))(view), part.cumsum(1))
    close(vmap(lambda x: x.cumsum(0), in_dims=2)(view.permute(1, 0, 2)), part.transpose(2, 1, 0).cumsum(1))
    expanded = t(A[0, 0]).expand(4, 2)
    close(vmap(lambda x: x * x.sum())(expanded), np.repeat((A[0, 0] * A[0, 0].sum())[None], 4, 0))


@pytest.mark.parametrize(
    "transform", [lambda f: f, grad, lambda f: lambda x: jvp(f, (x,), (x,))[1]], ids=["", "grad", "jvp"]
)
def test_a_batch_of_one(transform):
    f = transform(lambda x: (x**3).sum())
    close(vmap(f)(t(A[:1])), f(t(A[0])).numpy()[None])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2,
        lambda x: (x**2).sum(),
        grad(lambda x: (x**3).sum()),
        lambda x: jvp(lambda y: y @ y.mT, (x,), (x,))[1],
        lambda x: x.sort(0)[0],
        lambda x: lucid.cond(x.sum() > 0, lambda y: y.exp(), lambda y: y, x),
        vmap(lambda row: row.exp() / row.exp().sum()),
    ],
    ids=["mul", "sum", "grad", "jvp", "sort", "cond", "vmap"],
)
@pytest.mark.parametrize("how", [{}, {"chunk_size": 2}, {"chunk_size": "auto"}], ids=str)
def test_an_empty_batch(f, how):
    got = vmap(f, **how)(t(A[:0]))
    assert got.shape == (0, *f(t(A[0])).shape) and got.dtype == lucid.float64


def test_nested_with_dims():
    got = vmap(vmap(lambda x, y: x * y, in_dims=(None, 0)), in_dims=(2, None), out_dims=1)(t(A), t([1.0, 2.0]))
    close(got, np.stack([np.stack([A[..., j] * s for s in (1.0, 2.0)]) for j in range(2)], axis=1))


# Operations with several results.


@pytest.mark.parametrize(
    ("f", "ref"),
    [
        (lambda x: x.sort(0), lambda a: (np.sort(a, 0), np.argsort(a, 0))),
        (lambda x: x.sort(dim=-1, descending=True), lambda a: (-np.sort(-a, -1), np.argsort(-a, -1))),
        (lambda x: x.max(0), lambda a: (a.max(0), a.argmax(0))),
        (lambda x: x.min(dim=1, keepdim=True), lambda a: (a.min(1, keepdims=True), a.argmin(1)[:, None])),
        (lambda x: x.split(2), lambda a: (a[:2], a[2:])),
        (lambda x: x.split([1, 2], 0), lambda a: (a[:1], a[1:])),
        (lambda x: x.chunk(2, dim=1), lambda a: (a[:, :1], a[:, 1:])),
        (lambda x: x.unbind(0), tuple),
        (lambda x: x.unbind(-1), lambda a: tuple(a.T)),
        (lambda x: x.topk(2, dim=0), lambda a: (-np.sort(-a, 0)[:2], np.argsort(-a, 0)[:2])),
        (lambda x: x.cummax(0), lambda a: (np.maximum.accumulate(a, 0), np.array([[np.argmax(a[: i + 1, j]) for j in range(2)] for i in range(3)]))),
        (lambda x: x.median(0), lambda a: (np.median(a, 0), np.argsort(a, 0)[1])),
        (lambda x: x.kthvalue(2, 0), lambda a: (np.sort(a, 0)[1], np.argsort(a, 0)[1])),
    ],
    ids=["sort", "sort_descending", "max", "min", "split", "split_sizes", "chunk", "unbind", "unbind_last", "topk", "cummax", "median", "kthvalue"],
)  # fmt: skip
@pytest.mark.parametrize("in_dim", [0, 1])
def test_many_results(f, ref, in_dim):
    got = vmap(f, in_dims=in_dim)(t(np.moveaxis(A, 0, in_dim)))
    want = [ref(a) for a in A]
    assert len(got) == len(want[0])
    for g, *w in zip(got, *want, strict=True):
        close(g, np.stack(w))


def test_many_results_differentiated():
    c = np.array([1.0, -2.0, 0.5])

    def f(x):
        values, _ = x.sort()
        low, high = x.split([1, 2])
        return (values * t(c)).sum() * low.sum() + high.prod() + x.max(0)[0] ** 2

    x = A[..., 0]
    got = vmap(grad(f))(t(x))
    for g, row in zip(got.numpy(), x, strict=True):
        order, top = np.argsort(row), np.argmax(row)
        want = np.zeros(3)
        want[order] += c * row[0]
        want[0] += (row[order] * c).sum()
        want[1:] += row[1:][::-1]
        want[top] += 2 * row[top]
        np.testing.assert_allclose(g, want, rtol=1e-12)


# Chunks.


def counted(f):
    sizes = []

    def call(x):
        sizes.append(x._array.shape[0])
        return f(x)

    call.sizes = sizes
    return call


@pytest.mark.parametrize(
    ("chunk_size", "sizes"), [(None, [4]), (1, [1] * 4), (2, [2, 2]), (3, [3, 1]), (4, [4]), (99, [4])]
)
def test_chunk_size(chunk_size, sizes):
    f = counted(lambda x: (x.exp().sum(0), x.sum()))
    first, second = vmap(f, chunk_size=chunk_size, out_dims=(1, 0))(t(A))
    assert f.sizes == sizes
    close(first, np.exp(A).sum(1).T)
    close(second, A.sum((1, 2)))


def test_automatic_chunks_with_little_memory():
    f = counted(lambda x: (x @ x.mT).exp().sum())
    x = rng.standard_normal((6, 64, 64))
    got = vmap(f, chunk_size="auto", memory=300_000)(t(x))
    close(got, np.exp(x @ x.swapaxes(1, 2)).sum((1, 2)), 1e-9)
    assert f.sizes[0] == 1 and sum(f.sizes) == 6 and len(f.sizes) > 2 and max(f.sizes) < 5


def test_automatic_chunks_with_much_memory():
    f = counted(lambda x: x.sum())
    close(vmap(f, chunk_size="auto")(t(A)), A.sum((1, 2)))
    assert f.sizes == [1, 3]


def test_chunks_with_shared_arguments_and_gradients():
    w = t(A[0], requires_grad=True)
    out = vmap(lambda x, w: (x * w).sin().sum(), in_dims=(0, None), chunk_size=3)(t(A), w)
    out.sum().backward()
    close(w.grad, (np.cos(A * A[0]) * A).sum(0))


def test_chunks_of_nests():
    got = vmap(lambda d: {"y": d["x"] * 2, "none": None}, chunk_size=3)({"x": t(A)})
    close(got["y"], 2 * A)
    assert got["none"] is None


def test_chunks_with_a_shared_result():
    got, _ = vmap(lambda x: (t(3.0), x), out_dims=(None, 0), chunk_size=2)(t(A))
    close(got, 3.0)


def test_chunks_of_nested_vmaps():
    close(vmap(vmap(lambda x: x.sum(), chunk_size=2), chunk_size=3)(t(A)), A.sum(2))


# Refusals name the argument and the shapes.


def refused(error, *words):
    return pytest.raises(error, match="(?s)" + ".*".join(words))


def test_batch_sizes_that_differ():
    with refused(ValueError, "vmap", r"'x'", r"\(4, 3, 2\)", "4 examples", r"'y'", r"\(5,\)", "5"):
        vmap(lambda x, y: x)(t(A), lucid.ones(5))
    with refused(ValueError, "vmap", r"\['b'\]", r"\(2,\)"):
        vmap(lambda d: d)({"a": t(A), "b": lucid.ones(2)})


@pytest.mark.parametrize("dim", [3, -4, 17])
def test_in_dims_out_of_range(dim):
    with refused(ValueError, "in_dims", str(dim), r"'weight'", r"\(4, 3, 2\)"):
        vmap(lambda weight: weight, in_dims=dim)(t(A))


def test_a_number_cannot_be_a_batch():
    with refused(ValueError, "in_dims", r"'n'", r"\(\)", "None"):
        vmap(lambda x, n: x)(t(A), 2)


def test_in_dims_that_do_not_match_the_arguments():
    with refused(ValueError, "in_dims", r"\(0, 0\)"):
        vmap(lambda x: x, in_dims=(0, 0))(t(A))
    with refused(ValueError, "in_dims", "dict"):
        vmap(lambda x: x, in_dims=({"a": 0},))({"b": t(A)})
    with refused(ValueError, "in_dims", "1.5"):
        vmap(lambda x: x, in_dims=1.5)(t(A))
    with refused(ValueError, "in_dims", "True"):
        vmap(lambda x: x, in_dims=True)(t(A))


def test_out_dims_that_do_not_match_the_results():
    with refused(ValueError, "out_dims", r"\(0, 1\)"):
        vmap(lambda x: x, out_dims=(0, 1))(t(A))
    with refused(ValueError, "out_dims", r"\(0, 0, 0\)"):
        vmap(lambda x: (x, x), out_dims=(0, 0, 0))(t(A))


@pytest.mark.parametrize("dim", [3, -4])
def test_out_dims_out_of_range(dim):
    with pytest.raises((ValueError, IndexError), match="out_dims"):
        vmap(lambda x: x, out_dims=dim)(t(A))


def test_no_batch_at_all():
    with refused(ValueError, "all in_dims are None"):
        vmap(lambda x: x, in_dims=None)(t(A))
    with refused(ValueError, "vmap", "argument"):
        vmap(lambda: t(1.0))()


def test_out_dims_none_for_results_that_differ():
    with refused(ValueError, "out_dims", "differs between examples"):
        vmap(lambda x: x, out_dims=None)(t(A))


@pytest.mark.parametrize("result", [1.0, "text", np.ones(2), object()], ids=lambda r: type(r).__name__)
def test_results_must_be_tensors(result):
    with refused(TypeError, "vmap", "must return tensors", type(result).__name__):
        vmap(lambda x: result)(t(A))


@pytest.mark.parametrize("chunk_size", [0, -1, 1.5, "some", True])
def test_bad_chunk_size(chunk_size):
    with refused(ValueError, "chunk_size", str(chunk_size)):
        vmap(lambda x: x, chunk_size=chunk_size)


def test_bad_randomness():
    with refused(ValueError, "randomness", "often"):
        vmap(lambda x: x, randomness="often")


def test_errors_of_the_function_come_through():
    with pytest.raises(RuntimeError, match=r"shapes \(3, 2\) and \(7,\)"):
        vmap(lambda x: x + lucid.ones(7))(t(A))
    with pytest.raises(KeyError, match="own"):
        vmap(lambda x: {}["own"])(t(A))


# Python wants a number.


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (lambda x: bool(x > 0), "bool"),
        (lambda x: x.item(), "item"),
        (float, "item"),
        (int, "item"),
        (complex, "item"),
        (lambda x: range(3)[x.to(lucid.int64)], ""),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: np.asarray(x), "numpy"),
        (lambda x: 1 if x > 0 else 2, "bool"),
        (lambda x: "yes" if x in [x * 2] else "no", "bool"),
    ],
    ids=["bool", "item", "float", "int", "complex", "index", "tolist", "numpy", "asarray", "if", "in"],
)
def test_no_concrete_value_inside(wanted, name):
    x = t([1.0, -1.0, 2.0])
    with refused(RuntimeError, name, "3 examples", r"test_func_vmap\.py:\d+: ", "lucid.where", "lucid.cond"):
        vmap(lambda x: wanted(x) and x)(x)
    with refused(RuntimeError, name, "lucid.where", "lucid.cond"):
        vmap(grad(lambda x: (wanted(x) and x) * x))(x)
    assert float(x[0]) == 1.0


def test_the_error_names_the_line_of_the_user():
    def f(x):
        if x.sum() > 0:  # here
            return x
        return -x

    with refused(RuntimeError, "if x.sum\\(\\) > 0:  # here"):
        vmap(f)(t(A))


def test_repr_inside_does_not_fail():
    texts = []
    vmap(lambda x: texts.append(repr(x)) or x)(t([1.0, 2.0]))
    assert "2 examples" in texts[0] and "1., 2." in texts[0]


def test_python_control_flow_on_what_is_shared():
    shared = t(3.0)
    got = vmap(lambda x, s: x * 2 if s > 2 else x, in_dims=(0, None))(t(A), shared)
    close(got, 2 * A)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: lucid.where(x > 0),
        lambda x: x.repeat_interleave(x.to(lucid.int64)),
    ],
    ids=["nonzero", "mask", "masked_select", "unique", "where", "repeat_interleave"],
)
def test_shapes_that_depend_on_values_are_refused(f):
    with refused(RuntimeError, "4 examples", r"test_func_vmap\.py:\d+"):
        vmap(f)(t(A[:, :, 0]))


def test_copies_inside():
    close(vmap(lambda x: copy.copy(x) * 2)(t(A)), 2 * A)
    close(vmap(lambda x: copy.deepcopy(x).mul_(2))(t(A)), 2 * A)
    close(vmap(lambda x: copy.deepcopy({"x": [x]})["x"][0] + 1)(t(A)), A + 1)
