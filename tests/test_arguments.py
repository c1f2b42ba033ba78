"""Calls in every form in which arguments may be given, against NumPy or against the plainest form of the call."""

import collections
import math
import operator

import numpy as np
import pytest

import lucid

X = np.random.default_rng(0).normal(size=(3, 4))


def same(got, want):
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    if isinstance(got, lucid.Tensor | np.ndarray):
        assert got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12)
    else:
        assert got == want


# A call and the array or value that it gives; x is the tensor and a the array that it was made from.
FORMS = {
    "lucid.var(x, False)": "a.var()",
    "lucid.std(x, True)": "a.std(ddof=1)",
    "lucid.std(x, 1, True, True)": "a.std(1, ddof=1, keepdims=True)",
    "x.std(dim=0, correction=2)": "a.std(0, ddof=2)",
    "x.var(0, False)": "a.var(0)",
    "lucid.var_mean(x, 0, False, True)": "(a.var(0, keepdims=True), a.mean(0, keepdims=True))",
    "x.max(x * 2)": "np.maximum(a, a * 2)",
    "x.max(0, True)": "(a.max(0, keepdims=True), a.argmax(0, keepdims=True))",
    "x.max(axis=0)[0]": "a.max(0)",
    "x.norm(1, 0)": "np.abs(a).sum(0)",
    "x.norm(lucid.inf, 0, True)": "np.abs(a).max(0, keepdims=True)",
    "x.norm('fro', dim=(0, 1), dtype=lucid.float32).dtype": "lucid.float32",
    "x.split([1, 3], 1)": "np.split(a, [1], 1)",
    "x.split(split_size=2, dim=1)": "np.split(a, 2, 1)",
    "lucid.split(x, split_size_or_sections=[1, 2])": "np.split(a, [1])",
    "x.to(x.float()).dtype": "lucid.float32",
    "x.to('cpu', lucid.float32).dtype": "lucid.float32",
    "x.to(lucid.float64, True) is x": "True",
    "x.to(lucid.float64, False, True) is x": "False",
    "x.to(dtype=lucid.float64, copy=True) is x": "False",
    "x.type()": "'lucid.DoubleTensor'",
    "[x.to(d).type() for d in (lucid.bool, lucid.uint8, lucid.int64, lucid.bfloat16)]": (
        "['lucid.BoolTensor', 'lucid.ByteTensor', 'lucid.LongTensor', 'lucid.BFloat16Tensor']"
    ),
    "x.to(lucid.complex64).type()": "'lucid.ComplexFloatTensor'",
    "x.type(lucid.float32).dtype": "lucid.float32",
    "x.type('lucid.HalfTensor').dtype": "lucid.float16",
    "x.type('IntTensor').dtype": "lucid.int32",
    "x.type(x.dtype) is x": "True",
    "x.new(2, 3).shape": "(2, 3)",
    "x.new([1, 2])": "np.array([1.0, 2.0])",
    "x.new().shape": "(0,)",
    "x.size(dim=-1)": "4",
    "x.view(lucid.int64)": "a.view(np.int64)",
    "x.view(lucid.float32)": "a.view(np.float32)",
    "x.view(dtype=lucid.complex128)": "a.view(np.complex128)",
    "x.view(size=(2, 6))": "a.reshape(2, 6)",
    "x.view([6, 2])": "a.reshape(6, 2)",
    "x[:1].squeeze(0, 1)": "a[0]",
    "x[:1, :1].squeeze(0, 1)": "a[0, 0]",
    "x[:1].squeeze((0, 1))": "a[0]",
    "x[:1].squeeze(axis=0)": "a[0]",
    "x.sum([0])": "a.sum(0)",
    "x.sum(())": "a.sum()",
    "x.sum(axis=0, keepdims=True)": "a.sum(0, keepdims=True)",
    "x.expand(2, -1, -1)": "np.broadcast_to(a, (2, 3, 4))",
    "x.repeat(repeats=(1, 2))": "np.tile(a, (1, 2))",
    "x.permute(dims=(1, 0))": "a.T",
    "x.flip(0, 1)": "a[::-1, ::-1]",
    "x.narrow(0, lucid.tensor(1), 1)": "a[1:2]",
    "x.numpy(force=True)": "a",
    "lucid.einsum(x, [0, 1], x, [2, 1], [0, 2])": "a @ a.T",
    "lucid.einsum(x, [1, 0])": "a.T",
    "lucid.einsum(x, [..., 0], x, [..., 0], [...])": "(a * a).sum(1)",
    "lucid.einsum('ij,kj->ik', [x, x])": "a @ a.T",
    "(x.is_cuda, x.is_meta, x.is_quantized, x.is_sparse, x.is_pinned(), x.is_shared())": "(False,) * 6",
    "[c.shape for c in lucid.chunk(x[:0], 3)]": "[(0, 4)] * 3",
    "lucid.sum(x.to(lucid.int8), dtype=lucid.int16).dtype": "lucid.int16",
    "lucid.nansum(x, 0, dtype=lucid.int32).dtype": "lucid.int32",
    "lucid.sum(lucid.tensor([100, 100], dtype=lucid.int8), dtype=lucid.int8).item()": "-56",
    "lucid.prod(lucid.tensor([3, 0]), dtype=lucid.bool)": "np.array(False)",
}


@pytest.mark.parametrize("call", FORMS)
def test_forms_of_calls(call):
    names = {"lucid": lucid, "x": lucid.tensor(X), "a": X.copy(), "np": np}
    same(eval(call, names), eval(FORMS[call], names))


REFUSED = {
    "x.sum(0, 1)": (TypeError, "keepdim must be True or False"),
    "lucid.amax(x, 0, 1)": (TypeError, "keepdim"),
    "x.tril(1.5)": (TypeError, "integer"),
    "lucid.polygamma(1.5, x)": (TypeError, "integer"),
    "x.exp_(x)": (TypeError, "takes (exactly )?1 positional argument"),
    "x.exp_(out=x)": (TypeError, "takes no out"),
    "x.fmod_(x, x)": (TypeError, "takes (exactly )?2 positional arguments"),
    "x.view(shape=(2, 6))": (TypeError, "expected size"),
    "x.type('lucid.FooTensor')": (ValueError, "no class of tensors"),
    "x[:, ::2].view(lucid.int32)": (RuntimeError, "cannot be seen"),
    "x[0, 0].view(lucid.int32)": (RuntimeError, "cannot be seen"),
    "x[:, :3].view(lucid.complex128)": (RuntimeError, "cannot be seen"),
    "x.clone().requires_grad_().view(lucid.int64)": (RuntimeError, "requires grad"),
    "lucid.einsum(x, x)": (ValueError, "list of the numbers"),
    "lucid.einsum(x)": (ValueError, "list of the numbers"),
    "lucid.einsum(x, [30, 2], x, [2, 30])": (Exception, "size|shape|dimension"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused_calls_say_why_and_change_nothing(call):
    x = lucid.tensor(X)
    error, match = REFUSED[call]
    with pytest.raises(error, match=match):
        eval(call, {"lucid": lucid, "x": x})
    np.testing.assert_array_equal(x.numpy(), X)
    assert x._version == 0


def test_views_of_another_type_share_memory_and_versions():
    x = lucid.tensor([1.0, 2.0])
    bits = x.view(lucid.int32)
    w = lucid.ones(2, requires_grad=True)
    y = (x * w).sum()
    bits[0] = 0
    assert x.tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="overwritten"):
        y.backward()


def test_a_view_of_the_same_type_keeps_its_history():
    x = lucid.ones(2, requires_grad=True)
    y = (x * 2).view(lucid.float32)
    y.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_forced_arrays_can_be_written():
    x = lucid.ones(2, requires_grad=True)
    assert not x.numpy().flags.writeable
    x.numpy(force=True)[0] = 5
    assert x.tolist() == [5, 1]


@pytest.mark.parametrize("name", ["exp_", "sin_", "neg_", "sigmoid_"])
def test_in_place_forms_never_write_to_an_argument(name):
    x, other = lucid.tensor([0.5]), lucid.tensor([3.0])
    with pytest.raises(TypeError):
        getattr(x, name)(other)
    assert (x.tolist(), other.tolist()) == ([0.5], [3.0])


def test_einsum_by_numbers_orders_labels_by_number():
    a, b = np.ones((2, 3)) * np.arange(3), np.arange(8.0).reshape(2, 4)
    got = lucid.einsum(lucid.tensor(a), [40, 3], lucid.tensor(b), [40, 10])
    np.testing.assert_allclose(got.numpy(), np.einsum("kc,kd->cd", a, b))
    assert math.prod(got.shape) == 12


class Answering:
    """A class with operators of its own for what stands on their left."""

    def answer(self, other):
        return ("answered", other.shape)

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = answer
    __lt__ = __le__ = __gt__ = __ge__ = answer


class AnsweringPair(Answering, tuple):
    __slots__ = ()
    __lt__, __le__, __gt__, __ge__ = [Answering.answer] * 4


@pytest.mark.parametrize("other", [Answering(), AnsweringPair((1.0, 2.0))], ids=["object", "tuple"])
@pytest.mark.parametrize(
    "operation",
    "add sub mul truediv floordiv mod pow matmul lt le gt ge".split(),
)
def test_the_right_operand_is_asked_if_its_class_has_an_answer(operation, other):
    for x in (lucid.ones(2), lucid.ones(2, requires_grad=True), lucid.tensor([1, 2])):
        assert getattr(operator, operation)(x, other) == ("answered", (2,))
    assert lucid.func.grad(lambda x: (getattr(operator, operation)(x, other), x.sum())[1])(lucid.ones(2)).tolist() == [
        1,
        1,
    ]


def test_what_has_no_answer_is_refused_or_data():
    x = lucid.ones(2)
    for other in (object(), None, "s", b"s", {}):
        for operation in (operator.add, operator.mul, operator.pow, operator.lt):
            with pytest.raises(TypeError, match="expected a tensor, an array or a number"):
                operation(x, other)
    pair = collections.namedtuple("Pair", "a b")(3.0, 4.0)
    assert (x * pair).tolist() == (x * [3, 4]).tolist() == (x * (3.0, 4.0)).tolist() == [3, 4]


def test_tensors_are_not_asked_for_texts():
    assert 1.0 in lucid.ones(2) and 3 not in lucid.ones(2)
    with pytest.raises(RuntimeError, match="str 'a'"):
        "a" in lucid.ones(2)  # noqa: B015  # asking is the test
