"""Every small geometry of convolutions: values, gradients and second order against sums over taps and places.

The form T(x, w, y) = Σ x[s·o + d·k - p] · w[k] · y[o] is linear in each argument, so that every derivative of the
convolutions, of whatever order, is a value of T: <y, x∗w> says them all.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.nn import functional

CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
Ints = tuple[int, ...]


class Slide(NamedTuple):
    """How a kernel slides over an input: one entry for each dimension."""

    size: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints

    @property
    def out(self) -> Ints:
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(*self, strict=True))


LINE = [
    slide
    for each in product(range(1, 5), range(1, 4), range(1, 4), range(3), range(1, 3))
    if min((slide := Slide(*((v,) for v in each))).out) > 0
]
GROUPS = ((1, 2, 3), (2, 4, 2), (3, 3, 6))  # groups, channels of the input and of the result


def mixed(n: int, count: int) -> list[Slide]:
    """Geometries with a random line along each dimension, those of size 1 among them."""
    rng = np.random.default_rng(n)
    chosen = [[LINE[i] for i in rng.integers(len(LINE), size=n)] for _ in range(count)]
    ones = [line for line in LINE if line.size == line.kernel == (1,) and line.padding == (0,)]
    chosen += [[ones[i] for i in rng.integers(len(ones), size=n)] for _ in range(10)]
    return [Slide(*(tuple(line[f][0] for line in lines) for f in range(5))) for lines in chosen]


def convolved(x: np.ndarray, w: np.ndarray, slide: Slide, groups: int) -> np.ndarray:
    """The convolution, tap by tap."""
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in slide.padding)])
    x_groups = padded.reshape(len(x), groups, -1, *padded.shape[2:])
    w_groups = w.reshape(groups, -1, *w.shape[1:])
    total = 0
    for tap in product(*map(range, slide.kernel)):
        starts = [t * d for t, d in zip(tap, slide.dilation, strict=True)]
        where = [slice(b, b + (o - 1) * s + 1, s) for b, o, s in zip(starts, slide.out, slide.stride, strict=True)]
        at_tap = w_groups[(..., *tap)]
        total = total + np.einsum("ngc...,gqc->ngq...", x_groups[(slice(None),) * 3 + tuple(where)], at_tap)
    return np.asarray(total).reshape(len(x), len(w), *slide.out)


def drawn(rng: np.random.Generator, *shape: int) -> lucid.Tensor:
    return lucid.tensor(rng.standard_normal(shape)).requires_grad_()


def inner(a: object, b: object) -> float:
    return float(np.sum(np.asarray(a) * np.asarray(b)))


def check(slide: Slide, groups: int, inputs: int, results: int, transposed: bool, bias: bool) -> None:
    """All derivatives of a convolution, or of its transpose, as values of T."""
    rng = np.random.default_rng(0)
    n = len(slide.size)
    spread = [drawn(rng, 2, inputs, *slide.size), drawn(rng, 2, results, *slide.out)]
    weight = drawn(rng, results, inputs // groups, *slide.kernel)
    how = {"stride": slide.stride, "padding": slide.padding, "dilation": slide.dilation, "groups": groups}
    given, seed = spread[::-1] if transposed else spread
    shift = drawn(rng, seed.shape[1]) if bias else None
    if transposed:
        missing = tuple(
            n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, o, k, s, p, d in zip(slide.size, slide.out, *slide[1:], strict=True)
        )
        out = TRANSPOSED[n](given, weight, shift, output_padding=missing, **how)
    else:
        out = CONV[n](given, weight, shift, **how)
    assert out.shape == seed.shape

    def form(a: object, w: object, y: object) -> float:
        x, y = (y, a) if transposed else (a, y)
        return inner(convolved(np.asarray(x), np.asarray(w), slide, groups), y)

    wanted = [given, weight, *([] if shift is None else [shift])]
    first = autograd.grad(out, wanted, seed, create_graph=True)
    a, w, y = (t.detach().numpy() for t in (given, weight, seed))
    u, v = rng.standard_normal(a.shape), rng.standard_normal(w.shape)
    plus = 0.0 if shift is None else inner(shift.detach(), y.sum((0, *range(2, n + 2))))
    pairs = [
        (inner(out.detach(), y), form(a, w, y) + plus),
        (inner(first[0].detach(), u), form(u, w, y)),
        (inner(first[1].detach(), v), form(a, v, y)),
    ]
    total = (first[0] * lucid.tensor(u)).sum() + (first[1] * lucid.tensor(v)).sum()
    second = autograd.grad(total, [given, weight, seed])
    u2, v2, y2 = (rng.standard_normal(t.shape) for t in (a, w, y))
    pairs += [
        (inner(second[0], u2), form(u2, v, y)),
        (inner(second[1], v2), form(u, v2, y)),
        (inner(second[2], y2), form(u, w, y2) + form(a, v, y2)),
    ]
    got, want = zip(*pairs, strict=True)
    np.testing.assert_allclose(got, want, 1e-9, 1e-9, err_msg=f"{slide}, {groups} groups")


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize(("groups", "inputs", "results"), GROUPS)
def test_every_small_geometry_along_a_line(groups, inputs, results, transposed):
    for slide in LINE:
        check(slide, groups, inputs, results, transposed, bias=False)


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("n", [2, 3])
def test_mixed_geometries_of_planes_and_volumes(n, transposed):
    for k, slide in enumerate(mixed(n, 40)):
        check(slide, *GROUPS[k % 3], transposed, bias=k % 2 == 0)
