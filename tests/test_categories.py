"""Every primitive has a category, and what a category declares agrees with the kernels."""

import collections

import numpy as np
import pytest

import lucid
from lucid.core import kernels
from lucid.core.primitive import P, registry
from lucid.ops.categories import CATEGORIES, Fold
from lucid.ops.nn.pooling import window_map, windows

kernels.load_all()
lucid.special, lucid.nn, lucid.linalg, lucid.fft, lucid.signal  # noqa: B018  # declared with these


def test_categories_are_known():
    assert {p.category for p in registry.values()} <= set(CATEGORIES)


def test_few_primitives_are_in_no_category_and_say_why():
    other = [p for p in registry.values() if p.category == "other"]
    assert len(other) <= 60, collections.Counter(p.category for p in registry.values())
    assert [p.name for p in other if not p.reason] == []
    assert [p.name for p in registry.values() if p.reason and p.category != "other"] == []


FOLDED = sorted(n for n, p in registry.items() if p.category in ("reduction", "scan") and p.fold is not None)


def test_reductions_and_scans_have_folds():
    assert [n for n, p in registry.items() if p.category in ("reduction", "scan") and p.fold is None] == ["ctc_scan"]


POOLS = ("max_pool", "max_pool_indices")
WHOLE = (window_map(windows(5, 5, 1, 0, 1, ceil_mode=False)),)
SETTINGS = {
    **{name: [{"dim": 1, "reverse": False}] for name in ("cumsum", "cumprod", "recurrence")},
    "euclidean": [{}],
    "norm": [
        {"p": p, "dims": (1,), "keepdim": False, "divisor": d} for p in (2.0, 1.0, 3.5, 0.5, -1.0) for d in (1.0, 4.0)
    ],
    "running_positions": [{"dim": 1, "largest": largest} for largest in (True, False)],
    "sum_of_squares": [{"dims": (1,), "scale": 0.25}],
    "unit_size": [{"dims": (1,), "least": least} for least in (0.0, 1e-3)],
    "var": [{"dims": (1,), "keepdim": False, "divisor": d} for d in (3.0, 0.5)],
    **{name: [{"maps": WHOLE}] for name in POOLS},
}


def fold_of(prim, params):
    if isinstance(prim.fold, Fold):
        return prim.fold
    return prim.fold(**{k: v for k, v in params.items() if k not in ("dim", "dims", "keepdim")})


def folded(prim, operands, params, fold=None):
    """A fold along the last dimension, element by element, by the primitive's own declaration: every state."""
    fold = fold or fold_of(prim, params)
    state = tuple(lucid.tensor(u) for u in fold.unit(operands[0].numpy().dtype))
    found = []
    for place in range(operands[0].shape[-1]):
        state = fold.combine(state, fold.lift(*[x[..., place] for x in operands], lucid.tensor(place)))
        found.append(fold.finish(*state))
    return found


VALUES = {
    "floats": np.array(
        [[1.5, -2.0, 0.0, 3.0, 3.0], [0.5, np.nan, 1.0, np.nan, 2.0], [-np.inf, -np.inf, -1, np.inf, 7]]
    ),
    "integers": np.array([[1, -2, 0, 3, 3], [4, 4, 4, 4, 4], [-5, -6, -7, 0, -1]]),
    "truth": np.array([[True, False, True, True, False], [False] * 5, [True] * 5]),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", FOLDED)
def test_folds_give_what_kernels_do(name, kind):
    prim = registry[name]
    if kind != "floats" and name in (
        "logsumexp", "logcumsumexp", "recurrence", "norm", "unit_size", "euclidean", "sum_of_squares", "var", "nansum",
    ):  # fmt: skip
        pytest.skip("of floating-point numbers")
    if kind == "truth" and name in ("cumsum", "cumprod", "sum", "prod", "running_positions", *POOLS):
        pytest.skip("truth values are counted as integers before")
    x = [lucid.tensor(np.roll(VALUES[kind], k)) for k in range(len(prim.operands))]
    settings = [{"dim": 1}] if prim.category == "scan" or name.startswith("arg") else [{"dims": (1,), "keepdim": False}]
    settings = SETTINGS.get(name, settings)
    if name == "recurrence":  # whose products of infinities depend on the grouping
        x = [lucid.tensor(np.nan_to_num(VALUES[kind], posinf=2, neginf=-3)) for _ in x]
    pairs = [x[0][:, None, :], x[1][None, :, :]] if name == "euclidean" else x
    for params in settings:
        with np.errstate(all="ignore"):
            states = folded(prim, pairs, params)
            got = lucid.stack(states, -1) if prim.category == "scan" else states[-1]
            want = prim(*x, **params).reshape(got.shape)
        np.testing.assert_allclose(got.numpy().astype(float), want.numpy().astype(float), rtol=1e-12)


def test_a_wrong_fold_is_found():
    x = [lucid.tensor(VALUES["integers"])]
    assert folded(P.amax, x, {})[-1].tolist() == [3, 4, 0]
    assert folded(P.amax, x, {}, P.amin.fold)[-1].tolist() != [3, 4, 0]


@pytest.mark.parametrize("name", FOLDED)
def test_folds_may_be_grouped_in_any_way(name):
    prim = registry[name]
    fold = fold_of(prim, {} if isinstance(prim.fold, Fold) else SETTINGS[name][0])
    parts = [
        fold.lift(*[lucid.tensor(v) for v in values], lucid.tensor(i))
        for i, values in enumerate(np.random.default_rng(0).uniform(0.5, 1.5, (4, len(prim.operands))))
    ]
    one = fold.combine(fold.combine(fold.combine(parts[0], parts[1]), parts[2]), parts[3])
    two = fold.combine(fold.combine(parts[0], parts[1]), fold.combine(parts[2], parts[3]))
    np.testing.assert_allclose(float(fold.finish(*one)), float(fold.finish(*two)), rtol=1e-12)


def test_folds_of_norms_stay_in_range():
    for scale in (1e-200, 1e200):
        x = lucid.tensor(np.array([3.0, -4.0]) * scale)
        assert float(folded(P.norm, [x], {"p": 2.0})[-1]) == pytest.approx(5 * scale)
        unit = float(folded(P.unit_size, [x], {"least": 0.0})[-1])
        assert unit == float(P.unit_size(x, dims=(0,), least=0.0)) and scale < unit <= 4 * scale
    z = lucid.tensor(np.array([3 + 4j, 1j]))
    assert float(folded(P.norm, [z], {"p": 2.0})[-1]) == pytest.approx(26**0.5)
    assert float(folded(P.unit_size, [z * 1e200], {"least": 0.0})[-1]) == float(
        P.unit_size(z * 1e200, dims=(0,), least=0.0)
    )
