"""The checks can fail: each kind of rule is broken on purpose, and the check that watches over it must notice."""

from collections.abc import Callable, Iterator
from typing import Any

import checks
import numpy as np
import pytest
from samples import Make, Row, Sample, one_operand, s, two_operands

from lucid.core.kernels import fill, table
from lucid.core.node import unpack
from lucid.core.primitive import Primitive, lift, registry
from lucid.core.tensor import Tensor
from lucid.ops.categories import Elementwise, Pair, linear, view
from lucid.ops.rules import P, zeros_like

NOTICED = (AssertionError, RuntimeError)


@pytest.fixture(autouse=True)
def _forget_broken_primitives() -> Iterator[None]:
    known = set(registry)
    yield
    for name in set(registry) - known:
        del registry[name]
        table.pop(name, None)


def unary_row(partial: Any, kernel: Callable[..., Any] = np.sin, ref: Callable[..., Any] = np.sin, **flags: Any) -> Row:
    fill({"broken": kernel})
    prim = Elementwise("broken", (partial,), ("x",))
    return Row("broken", lambda x: prim(lift(x)), ref, smooth_operands, complex=True, **flags)


def smooth_operands(make: Make) -> Iterator[Sample]:
    return (x for x in one_operand(make) if x.smooth)


def product_row(rules: Any, batch: Any = None) -> Row:
    fill({"broken": np.multiply})
    prim = Primitive("broken", operands=("x", "y"), rules=rules, batch=batch)
    return Row("broken", lambda x, y: prim(lift(x), lift(y)), np.multiply, pairs_of_tensors, complex=True)


def pairs_of_tensors(make: Make) -> Iterator[Sample]:
    return (x for x in two_operands(make) if all(isinstance(a, np.ndarray) and a.dtype == make.dtype for a in x.args))


def flip_row(transpose: Any = None, batch: Any = None) -> Row:
    fill({"broken": lambda x: np.roll(x, 1, -1)})
    prim = linear(
        "broken",
        transpose=transpose or (lambda ct: P.roll(ct, shifts=(-1,), dims=(ct.ndim - 1,))),
        batch=batch or (lambda x, size: P.broken(x)),
    )
    return Row(
        "broken", prim, lambda x: np.roll(x, 1, -1), lambda make: iter([s(make(3)), s(make(2, 3))]), complex=True
    )


def noticed(check: Callable[[Row, str], None], row: Row, dtype: str = "float64") -> bool:
    try:
        check(row, dtype)
    except NOTICED:
        return True
    return False


DERIVATIVES = (checks.check_reverse, checks.check_forward, checks.check_second, checks.check_vmap)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_sound_rules_pass(dtype):
    for row in (unary_row(lambda x: P.cos(x)), flip_row()):
        for check in (checks.check_values, *DERIVATIVES):
            assert not noticed(check, row, dtype), check.__name__


def test_wrong_value():
    assert noticed(checks.check_values, unary_row(lambda x: P.cos(x), kernel=lambda x: np.sin(x) * 1.001))


def test_wrong_type():
    row = unary_row(lambda x: P.cos(x), kernel=lambda x: np.sin(x).astype(np.float64))
    assert noticed(checks.check_values, row, "float32")


def test_operand_written():
    assert noticed(checks.check_values, unary_row(lambda x: P.cos(x), kernel=lambda x: np.sin(x, out=x)))


def test_unlisted_type_accepted():
    row = unary_row(lambda x: P.cos(x))
    assert noticed(checks.check_refused, row, "int64")


def test_wrong_partial_derivative():
    row = unary_row(lambda x: -P.cos(x))
    assert noticed(checks.check_reverse, row) and noticed(checks.check_forward, row)


def test_partial_derivative_slightly_wrong():
    row = unary_row(lambda x: P.cos(x) * 1.001)
    assert noticed(checks.check_reverse, row) and noticed(checks.check_forward, row)


def test_wrong_forward_rule_alone():
    row = unary_row(Pair(lambda ct, x: ct * P.cos(x), lambda t, x: t * P.sin(x)))
    assert not noticed(checks.check_reverse, row)
    assert noticed(checks.check_forward, row)


def test_value_that_is_kept_apart_from_what_is_written():
    """A derivative by a value that the tape does not watch: one that was wrapped again."""
    fill({"broken": np.multiply})
    rules = (lambda ct, y: ct * y, lambda ct, x: ct * x)
    prim = Primitive("broken", operands=("x", "y"), rules=rules)
    row = Row("broken", lambda x, y: prim(Tensor._wrap(lift(x)._array), lift(y)), np.multiply, pairs_of_tensors)
    with pytest.raises(AssertionError):
        checks.check_overwritten(row, "float64")


def test_missing_conj():
    row = unary_row(Pair(lambda ct, x: ct * P.cos(x)))
    assert not noticed(checks.check_reverse, row)
    assert noticed(checks.check_reverse, row, "complex128")
    assert noticed(checks.check_forward, row, "complex128")


def test_wrong_saved_value():
    """The derivative of x² reads its result in the place of its operand."""
    row = unary_row(lambda out: out + out, kernel=np.square, ref=np.square)
    assert noticed(checks.check_reverse, row)


def test_constant_where_a_function_belongs():
    """A first derivative that is right but connected to nothing."""

    def unconnected(x: Any) -> Any:
        return lift(np.cos(checks.array(x))) if isinstance(x, Tensor) else np.cos(x)

    row = unary_row(unconnected)
    assert not noticed(checks.check_reverse, row)
    assert noticed(checks.check_second, row)


class Forgetful(Elementwise):
    """A product that takes an operand for a constant if its own gradient is not asked for."""

    def vjp(self, node: Any, ct: Any) -> Any:
        values = [
            v.detach() if isinstance(v, Tensor) and e is None else v for v, e in zip(unpack(node, ct), node.edges)
        ]
        return [None if e is None else ct * values[1 - k] for k, e in enumerate(node.edges)]


def test_operand_that_nobody_asked_for_taken_for_a_constant():
    fill({"broken": np.multiply})
    prim = Forgetful("broken", (lambda y: y + 0, lambda x: x + 0), ("x", "y"))
    row = Row("broken", lambda x, y: prim(lift(x), lift(y)), np.multiply, lambda make: iter([s(make(3), make(3))]))
    for check in (checks.check_reverse, checks.check_forward):
        assert not noticed(check, row)
    assert noticed(checks.check_second, row)


def test_wrong_transpose():
    row = flip_row(transpose=lambda ct: P.roll(ct, shifts=(1,), dims=(ct.ndim - 1,)))
    assert noticed(checks.check_reverse, row) and noticed(checks.check_forward, row)


def test_wrong_batch_rule():
    row = flip_row(batch=lambda x, size: P.flip(x, dims=(0,)))
    assert not noticed(checks.check_reverse, row)
    assert noticed(checks.check_vmap, row)


def test_batch_rule_that_ignores_a_choice_of_operands():
    """Right if both operands are batched; a single one is not aligned."""
    rules = (lambda ct, x, y: P.mul(ct, y), lambda ct, x, y: P.mul(ct, x))
    row = product_row(rules, batch=lambda prim, values, batched, size, params: P.mul(*values))
    assert noticed(checks.check_vmap, row)


def test_missing_sum_after_broadcasting():
    row = product_row((lambda ct, y: ct * y, lambda ct, x: ct * x))
    assert noticed(checks.check_reverse, row)


def test_cotangent_of_another_type():
    row = flip_row(
        transpose=lambda ct: P.roll(
            P.cast(ct, dtype=np.dtype(float), source=ct.dtype), shifts=(-1,), dims=(ct.ndim - 1,)
        )
    )
    assert noticed(checks.check_types, row, "float32")


def test_copy_that_shares_memory():
    row = unary_row(1, kernel=lambda x: x[::-1] if x.ndim and x.shape[0] == 1 else -x, ref=np.negative)
    assert noticed(checks.check_aliasing, row)


def test_results_that_share_memory():
    def twins(x: Any) -> tuple[Tensor, Tensor]:
        found = np.exp(checks.array(x))
        return Tensor._wrap(found), Tensor._wrap(found[...])

    assert noticed(checks.check_aliasing, Row("broken", twins, lambda x: (x, x), smooth_operands))


def test_view_that_shares_no_memory():
    fill({"broken": lambda x: x.view()})
    prim = view("broken", transpose=lambda ct: ct, batch=lambda x, size: x)

    def stale(x: Tensor) -> Tensor:
        out: Tensor = prim(x)
        out._array = out._array.copy()
        return out

    assert not noticed(checks.check_aliasing, Row("sound", prim, lambda x: x, smooth_operands))
    assert noticed(checks.check_aliasing, Row("broken", stale, lambda x: x, smooth_operands))


def test_wrong_convention():
    def at_zero(ct: Any, x: Any) -> Any:
        return P.where(x >= 0, ct, 0)

    row = unary_row(Pair(at_zero), kernel=lambda x: np.maximum(x, 0), pins=((([-1.0, 0.0, 1.0],), ([0, 0, 1],)),))
    assert noticed(checks.check_pins, row)


def test_gradient_where_none_belongs():
    row = unary_row(0, kernel=np.sign, ref=np.sign, differentiable=False)
    assert noticed(checks.check_undifferentiable, row)


def test_primitive_without_a_row():
    fill({"lonely": np.sin})
    lonely = Elementwise("lonely", (lambda x: P.cos(x),), ("x",))
    used = unary_row(lambda x: P.cos(x))
    missing = checks.exercise({"lonely": lonely, "broken": registry["broken"]}, [used])
    assert missing == ["lonely.batch", "lonely.jvp", "lonely.kernel", "lonely.vjp"]


def test_zero_gradients_are_compared():
    """A rule that gives zeros is not taken for an unconnected operand."""
    assert noticed(checks.check_reverse, unary_row(Pair(lambda ct, x: zeros_like(ct))))
