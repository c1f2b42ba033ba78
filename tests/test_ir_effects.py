"""The effects of programs: what they read, write, draw and check."""

import numpy as np
import pytest

import lucid
import lucid.ops.fft  # which declares the primitive of overlaps
from lucid import linalg, nn, special
from lucid.core.primitive import P, registry
from lucid.func import make_graph
from lucid.ir.effects import Effect, Memories, share_memory
from lucid.sparse.linalg import Method

F = nn.functional
special.erfcx  # noqa: B018  # declares the family
POLYNOMIALS = sorted(name for name in registry if "_polynomial_" in name)
I, ONES, NAN = lucid.tensor([1, 2]), lucid.tensor([0.5, 0.25]), lucid.full((2, 2), np.nan)
EYE, ZERO = lucid.eye(2), lucid.zeros(2, 2)
ROWS, COLUMNS = lucid.tensor([0, 1, 2]), lucid.tensor([0, 1])  # of a diagonal matrix in compressed rows
CLASSES, SCORES = lucid.tensor([0, 1]), lucid.ones(2, 3)


def polynomial(name):
    return (lambda x, n: getattr(special, name)(x, n), (ONES, ONES * 8), (ONES, ONES * 4e7), ValueError)


def of_matrix(f):
    return (f, (EYE,), (NAN,), linalg.LinAlgError)


# For each primitive that checks values: a function, arguments that pass and arguments that do not, and the error.
FAILING = {
    "in_range": (lambda x, i: x[i], (ONES, CLASSES), (ONES, CLASSES + 5), IndexError),
    "cross_entropy": (F.cross_entropy, (SCORES, CLASSES), (SCORES, CLASSES + 7), IndexError),
    "nll": (F.nll_loss, (SCORES, CLASSES), (SCORES, CLASSES + 7), IndexError),
    "nll_back": (
        lambda x, i: P.nll_back(x, i, classes=3, ignore_index=-100, reduction="none"), (ONES, CLASSES), (ONES, CLASSES + 7),
        IndexError,
    ),
    "pick_class": (
        lambda x, i: P.pick_class(x, i, ignore_index=-100), (SCORES, CLASSES), (SCORES, CLASSES + 7), IndexError,
    ),
    "place_class": (
        lambda x, i: P.place_class(x, i, classes=3, ignore_index=-100), (ONES, CLASSES), (ONES, CLASSES + 7), IndexError,
    ),
    "probability_entropy": (F.binary_cross_entropy, (ONES, ONES), (ONES * 9, ONES), ValueError),
    "floor_divide": (lambda x, y: x // y, (I, I), (I, I * 0), ZeroDivisionError),
    "truncated_divide": (lambda x, y: lucid.div(x, y, rounding_mode="trunc"), (I, I), (I, I * 0), ZeroDivisionError),
    "remainder": (lambda x, y: x % y, (I, I), (I, I * 0), ZeroDivisionError),
    "fmod": (lucid.fmod, (I, I), (I, I * 0), ZeroDivisionError),
    "pow": (lambda x, y: x**y, (I, I), (I, -I), ValueError),
    "inverse": (linalg.inv, (EYE,), (ZERO,), linalg.LinAlgError),
    "solve": (linalg.solve, (EYE, ONES), (ZERO, ONES), linalg.LinAlgError),
    "cholesky": (linalg.cholesky, (EYE,), (-EYE,), linalg.LinAlgError),
    "lu_factor": (linalg.lu_factor, (EYE,), (ZERO,), linalg.LinAlgError),
    "ldl_factor": (
        lambda x: linalg.ldl_factor_ex(x, check_errors=True)[:2], (EYE,), (ZERO,), linalg.LinAlgError,
    ),
    "checked_factor": (lambda x: P.checked_factor(x), (EYE,), (ZERO,), linalg.LinAlgError),
    "permutation": (
        lambda p: P.permutation(p, m=2, type=np.dtype("float32")), (lucid.tensor([1, 2]),), (lucid.tensor([1, 9]),),
        RuntimeError,
    ),
    "ldl_settled": (
        lambda x, p: P.ldl_settled(x, p, back=False), (EYE, lucid.tensor([1, 2])), (EYE, lucid.tensor([1, 9])),
        RuntimeError,
    ),
    "ldl_order": (
        lambda p: P.ldl_order(p, type=np.dtype("float32")), (lucid.tensor([1, 2]),), (lucid.tensor([1, 9]),),
        RuntimeError,
    ),
    "ldl_blocks": (
        lambda p: P.ldl_blocks(p, type=np.dtype("float32")), (lucid.tensor([1, 2]),), (lucid.tensor([1, 9]),),
        RuntimeError,
    ),
    "pinv": of_matrix(linalg.pinv),
    "matrix_rank": of_matrix(linalg.matrix_rank),
    "lstsq": of_matrix(lambda x: linalg.lstsq(x, EYE)[0]),
    "eigh": of_matrix(lambda x: linalg.eigh(x)[0]),
    "eigvalsh": of_matrix(linalg.eigvalsh),
    "eig": of_matrix(lambda x: linalg.eig(x)[0]),
    "eigvals": of_matrix(linalg.eigvals),
    "svd": of_matrix(lambda x: linalg.svd(x)[1]),
    "svdvals": of_matrix(linalg.svdvals),
    "nuclear_norm": of_matrix(lambda x: linalg.matrix_norm(x, "nuc")),
    "extreme_singular_value": of_matrix(lambda x: linalg.matrix_norm(x, 2)),
    "within_gauge": (
        lambda x: P.within_gauge(x, name="eigh", freedom="signs are free"), (ZERO,), (EYE,), RuntimeError,
    ),
    "overlap_reciprocal": (lambda x: P.overlap_reciprocal(x), (ONES,), (ONES * 0,), RuntimeError),
    "satisfied": (lambda x: P.satisfied(x > 0, what="x must be positive"), (ONES,), (-ONES,), ValueError),
    "poisson_quantile": (lucid.poisson, (ONES,), (-ONES,), ValueError),
    "binomial_quantile": (lucid.binomial, (ONES * 8, ONES), (ONES * 8, ONES * 8), ValueError),
    "csr_solve": (
        lambda v: P.csr_solve(ROWS, COLUMNS, v, EYE, transposed=False), (ONES,), (ONES * 0,), (RuntimeError, linalg.LinAlgError),
    ),
    "csr_iterate": (
        lambda v: P.csr_iterate(
            ROWS, COLUMNS, v, EYE, ZERO, method=Method("cg", 1e-6, 0.0, 20, None, None), transposed=False, strict=True
        )[0],
        (ONES,), (ONES * np.nan,), (RuntimeError, linalg.LinAlgError),
    ),
    "weighted_pick": (lambda x: lucid.multinomial(x, 1), (ONES,), (-ONES,), ValueError),
    **{name: polynomial(name) for name in POLYNOMIALS},
}  # fmt: skip


def checks(program):
    return [program.instructions[e.place].primitive.name for e in program.effects if e.kind == "check"]


@pytest.mark.parametrize("name", sorted(name for name, primitive in registry.items() if primitive.checks))
def test_each_check_is_known_and_can_fail(name):
    f, good, bad, error = FAILING[name]
    program = make_graph(f)(*good)
    program(*good)
    assert name in checks(program)
    with pytest.raises(error):
        program(*bad)
    assert f"# checks {registry[name].checks.what}" in str(program)


def test_what_checks_nothing_has_no_check():
    for f, x in (
        (lambda x: x // x, ONES),
        (lambda x: x**x, ONES),
        (lambda x: linalg.inv_ex(x)[0], EYE),
        (lambda x: linalg.cholesky_ex(x)[0], EYE),
        (lambda x: (x @ x).exp().sum(), EYE),
    ):
        assert checks(make_graph(f)(x)) == []


def test_effects_are_in_the_order_in_which_they_happen():
    w, unread = lucid.ones(3), lucid.ones(2)

    def f(x, i):
        y = x[i] * w
        return y + lucid.rand(2, 3), unread

    program = make_graph(f)(lucid.ones(4, 3), lucid.tensor([0, 1]))
    kinds = [(e.kind, program.instructions[e.place].primitive.name if e.place < len(program) else "return") for e in program.effects]  # fmt: skip
    assert kinds == [("check", "in_range"), ("read", "mul"), ("draw", "draw"), ("read", "return")]
    assert program.effects[1].target is w and program.effects[3].target is unread
    assert make_graph(lambda x: x.exp())(lucid.ones(2)).effects == ()
    assert isinstance(program.effects[0], Effect)


def test_branches_and_loops_have_the_effects_of_their_programs():
    def f(x, i):
        return lucid.cond(x.sum() > 0, lambda x: x[i] * lucid.rand(2), lambda x: x[:2], x)

    program = make_graph(f)(lucid.ones(3), lucid.tensor([0, 1]))
    (place,) = {e.place for e in program.effects}
    assert program.instructions[place].primitive.name == "cond"
    assert {e.kind for e in program.effects} == {"check", "draw"}
    loop = make_graph(lambda x: lucid.while_loop(lambda v: v.sum() < 5, lambda v: v + v // 2, x))(I)
    assert [e.kind for e in loop.effects] == ["check"]


def test_tensors_that_share_memory_are_found():
    """As by a look at all pairs."""
    rng = np.random.default_rng(0)
    base = lucid.zeros(100)
    tensors = [base, lucid.zeros(5), lucid.zeros(0), base.reshape(10, 10).t()]
    for _ in range(40):
        low, high = sorted(rng.integers(0, 101, 2))
        tensors.append(base[int(low) : int(high)])
    memories = Memories(tensors)
    for x in tensors:
        assert sorted(memories.beside(x)) == [k for k, t in enumerate(tensors) if share_memory(x, t)]
