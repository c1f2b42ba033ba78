"""Every nesting, to depth 3, of grad, jvp, vmap and the tape, over functions that use all that programs use."""

import re

import numpy as np
import pytest
from nesting_samples import SAMPLES, Sample
from nestings import CLOSURES, MAIN, OTHERS, Nesting, X, nestings, pairs, tensor

import lucid

by_name = pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)


def check(sample: Sample, nesting: Nesting) -> None:
    apply = nesting.of_tensors(sample.f)
    if nesting.order > sample.max_order:
        with pytest.raises(RuntimeError, match=r"cannot be differentiated (again|through a second transform)"):
            apply(tensor(X))
        return
    try:
        got = apply(tensor(X))
    except RuntimeError as error:
        if not (sample.refused(nesting) and re.search(sample.refusal, str(error))):
            raise
        return
    assert got.shape == () and got.dtype == lucid.float64
    np.testing.assert_allclose(got.item(), nesting.expected(sample.ref), rtol=1e-8, atol=1e-9)


@by_name
def test_the_reference_is_the_function(sample):
    """Otherwise a derivative that is wrong could be right by a wrong formula."""
    points = np.broadcast_to(X, (3, 3)).astype(complex)
    np.testing.assert_allclose(sample.f(tensor(X)).item(), np.real(sample.ref(points)), rtol=1e-12)


def up_to_three(transforms):
    """All nestings of one, two or three of them; samples take the last by turns."""
    deep = [pytest.param(n, marks=pytest.mark.sampled(every=6)) for n in nestings(transforms, 3)]
    return pytest.mark.parametrize("nesting", [*nestings(transforms, 1), *nestings(transforms, 2), *deep], ids=str)


@up_to_three(MAIN)
@by_name
def test_nesting(sample, nesting):
    check(sample, nesting)


FEW = [s for s in SAMPLES if s.name in ("elementwise", "fills_zeros", "function", "detached")]


@up_to_three(CLOSURES)
@pytest.mark.parametrize("sample", FEW, ids=lambda s: s.name)
def test_nesting_with_closures(sample, nesting):
    check(sample, nesting)


@pytest.mark.parametrize("nesting", pairs(OTHERS, MAIN), ids=str)
@by_name
def test_pair_with_another_transform(sample, nesting):
    check(sample, nesting)


@pytest.mark.parametrize("nesting", nestings(OTHERS, 2), ids=str)
@pytest.mark.parametrize("sample", FEW, ids=lambda s: s.name)
def test_pair_of_other_transforms(sample, nesting):
    check(sample, nesting)
