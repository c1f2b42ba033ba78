"""SciPy's functions that take arrays of any library, called with tensors; run as a program, since SciPy reads the
switch SCIPY_ARRAY_API when it is imported.

A case is a function of a namespace and a maker of arrays. `GRAD` cases must also give the right derivative, both ways.
"""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import scipy.cluster
import scipy.differentiate
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.optimize
import scipy.optimize.elementwise
import scipy.signal
import scipy.special
import scipy.stats
from scipy.spatial.transform import Rotation

import lucid
from lucid import array_api

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 3))
P = np.abs(X) + 0.1
V, W = RANDOM.normal(size=(2, 9))
LONG = RANDOM.normal(size=36)
STEPS = np.arange(9.0)

VALUE: dict = {}  # case -> call; the result is compared with that on NumPy arrays
GRAD: dict = {}  # the same, and the derivative with finite differences


def family(table, module, names, *data, **settings):
    for name in names.split():

        def call(xp, a, name=name):
            return getattr(module, name)(*[a(d) if isinstance(d, np.ndarray) else d for d in data], **settings)

        table[f"{module.__name__.removeprefix('scipy.')}.{name}"] = call


stats, special, signal, ndimage = scipy.stats, scipy.special, scipy.signal, scipy.ndimage

family(
    GRAD,
    stats,
    "gmean hmean skew kurtosis variation entropy sem iqr median_abs_deviation describe circmean circvar circstd "
    "jarque_bera tmean tvar tstd tsem gstd differential_entropy tmin tmax mode",
    P,
    axis=0,
)
family(GRAD, stats, "skewtest kurtosistest normaltest kstat kstatvar", LONG)
family(GRAD, stats, "bartlett ttest_ind ttest_rel pearsonr levene alexandergovern", V, W)
family(GRAD, stats, "chisquare power_divergence", np.array([10.0, 12.0, 9.0]))
family(GRAD, stats, "ttest_1samp", X, 0.0)
family(GRAD, stats, "trim_mean", V, 0.2)
family(GRAD, stats, "zmap", X, P)
family(GRAD, stats, "pmean", P, 2.0)
family(GRAD, stats, "quantile", V, np.array([0.2, 0.7]))
family(GRAD, stats, "combine_pvalues", np.array([0.1, 0.2, 0.3]))
family(VALUE, stats, "zscore gzscore moment rankdata lmoment", P)
family(VALUE, stats, "spearmanrho chatterjeexi kruskal fligner mannwhitneyu wilcoxon brunnermunzel mood", V, W)
family(VALUE, stats, "false_discovery_control", np.array([0.1, 0.02, 0.3]))
family(VALUE, stats, "friedmanchisquare", V, W, V * W)

UNIT, OTHER = np.array([0.2, 0.4, 0.7]), np.array([0.5, 0.6, 0.9])
family(
    GRAD,
    special,
    "log_ndtr ndtr ndtri erf erfc erfinv i0 i0e i1 i1e gammaln expit logit entr digamma psi gamma sinc exp2 j0 j1 k0 k1",
    UNIT,
)
family(GRAD, special, "rel_entr xlogy xlog1py chdtr chdtrc gammainc gammaincc betaln stdtr", UNIT, OTHER)
family(GRAD, special, "betainc fdtr fdtrc", 5 * UNIT, 7 * OTHER, OTHER)
family(GRAD, special, "logsumexp softmax", X, axis=0)
family(VALUE, special, "log_softmax", X, axis=0)
family(VALUE, special, "cbrt exp10", UNIT)
family(VALUE, special, "kl_div poch binom", UNIT, OTHER)

family(GRAD, signal, "hilbert envelope", LONG)
family(GRAD, signal, "fftconvolve oaconvolve", V, W[:3])
family(GRAD, signal, "resample", V, 5)
family(GRAD, signal, "freqz", np.array([1.0, 0.5]), np.array([1.0, -0.3]), worN=8)
family(VALUE, signal, "convolve correlate", V, W[:3])
family(VALUE, signal, "convolve2d correlate2d", X, X[:2, :2])
family(VALUE, signal, "detrend medfilt cspline1d qspline1d", LONG)
family(VALUE, signal, "lfilter filtfilt", np.array([1.0, 0.5]), np.array([1.0, -0.3]), LONG)
family(VALUE, signal, "resample_poly", V, 3, 2)
family(VALUE, signal, "bilinear", np.array([1.0, 0.5]), np.array([1.0, 0.3]))

family(VALUE, ndimage, "sobel prewitt laplace spline_filter sum mean maximum center_of_mass label", X)
family(VALUE, ndimage, "gaussian_filter gaussian_laplace fourier_gaussian", X, 1.0)
family(VALUE, ndimage, "uniform_filter median_filter maximum_filter minimum_filter grey_dilation", X, 3)
family(VALUE, ndimage, "convolve correlate", X, X[:2, :2])
family(VALUE, ndimage, "map_coordinates", X, np.array([[1.0, 2.0], [0.5, 1.0]]))
family(VALUE, ndimage, "zoom shift rotate", X, 2.0)
family(VALUE, ndimage, "distance_transform_edt binary_dilation", (X > 0).astype(float))

family(GRAD, scipy.integrate, "trapezoid cumulative_trapezoid cumulative_simpson", X, axis=0)
family(VALUE, scipy.integrate, "romb", V)
GRAD["integrate.cubature"] = lambda xp, a: (
    (
        scipy.integrate.cubature(
            lambda x, c: xp.exp(-c * xp.sum(x**2, axis=-1)), a([0.0, 0.0]), a([1.0, 1.0]), args=(a(2.0),)
        )
    ).estimate
)
VALUE["integrate.tanhsinh"] = lambda xp, a: (
    scipy.integrate.tanhsinh(lambda x: xp.exp(-(x**2)), a(0.0), a([1.0, 2.0])).integral
)

family(GRAD, scipy.fft, "fft ifft rfft ihfft fftn fftshift", X)
family(GRAD, scipy.fft, "fht", V, 0.1, 0.0)
family(VALUE, scipy.fft, "dct dst", X)

family(GRAD, scipy.optimize, "rosen rosen_der rosen_hess", V)
GRAD["differentiate.derivative"] = lambda xp, a: scipy.differentiate.derivative(xp.exp, a([0.5, 1.0])).df
GRAD["differentiate.jacobian"] = lambda xp, a: scipy.differentiate.jacobian(lambda x: x**2, a([1.0, 2.0])).df
VALUE["optimize.elementwise.find_root"] = lambda xp, a: (
    scipy.optimize.elementwise.find_root(lambda x: x**2 - 2, (a([0.0]), a([2.0]))).x
)
VALUE["optimize.elementwise.find_minimum"] = lambda xp, a: (
    scipy.optimize.elementwise.find_minimum(lambda x: (x - 1) ** 2, (a(-1.0), a(0.5), a(3.0))).x
)

GRAD["spatial.Rotation.from_rotvec"] = lambda xp, a: Rotation.from_rotvec(a([[0.1, 0.2, 0.3]])).as_matrix()
GRAD["spatial.Rotation.apply"] = lambda xp, a: Rotation.from_quat(a([0.0, 0.1, 0.6, 0.8])).apply(a([1.0, 2.0, 3.0]))

GRAD["cluster.vq.whiten"] = lambda xp, a: scipy.cluster.vq.whiten(a(X))
VALUE["cluster.vq.vq"] = lambda xp, a: scipy.cluster.vq.vq(a(X), a(X[:2]))
VALUE["cluster.vq.kmeans2"] = lambda xp, a: scipy.cluster.vq.kmeans2(a(X), a(X[:2]), minit="matrix")
for linkage in ("single", "average", "ward"):
    VALUE[f"cluster.hierarchy.{linkage}"] = lambda xp, a, f=linkage: getattr(scipy.cluster.hierarchy, f)(a(X))
for kind in ("CubicSpline", "Akima1DInterpolator", "PchipInterpolator"):
    VALUE[f"interpolate.{kind}"] = lambda xp, a, f=kind: getattr(scipy.interpolate, f)(a(STEPS), a(V))(a([0.5, 1.5]))
VALUE["interpolate.RegularGridInterpolator"] = lambda xp, a: scipy.interpolate.RegularGridInterpolator(
    (a(np.arange(6.0)), a(np.arange(3.0))), a(X)
)(a([[0.5, 0.5], [2.5, 1.0]]))

CASES = VALUE | GRAD


class Maker:
    """Arrays of one library, in the order in which they are asked for; one of them may be moved a little."""

    def __init__(self, xp, moved=None, requires_grad=False):
        self.xp, self.moved, self.requires_grad, self.made = xp, moved, requires_grad, []

    def __call__(self, values):
        values = np.asarray(values, float)
        if self.moved is not None and self.moved[0] == len(self.made):
            values = values + self.moved[1]
        x = values if self.xp is np else lucid.tensor(values, requires_grad=self.requires_grad)
        self.made.append(x)
        return x


def leaves(result):
    """The arrays and numbers of a result, whatever object holds them."""
    if isinstance(result, tuple | list):
        return [x for item in result for x in leaves(item)]
    if hasattr(result, "shape") or isinstance(result, int | float | complex):
        return [result]
    return [x for key, item in sorted(vars(result).items()) if not key.startswith("_") for x in leaves(item)]


def total(result):
    """One number of all floats of a result, each with its own weight."""
    out = 0.0
    for i, x in enumerate(leaves(result)):
        if isinstance(x, lucid.Tensor) and (x.is_floating_point() or x.is_complex()):
            weights = lucid.cos(lucid.arange(x.numel(), dtype=lucid.float64) + i).reshape(x.shape)
            out = out + ((x.abs() if x.is_complex() else x) * weights).sum()
    return out


def check_values(call):
    with np.errstate(all="ignore"):
        wanted, found = leaves(call(np, Maker(np))), leaves(call(array_api, Maker(array_api)))
    assert len(found) == len(wanted)
    assert any(isinstance(x, lucid.Tensor) for x in found), f"no tensors, but {[type(x).__name__ for x in found]}"
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(f), np.asarray(w), rtol=1e-7, atol=1e-9)
        assert np.asarray(f).dtype == np.asarray(w).dtype


def check_gradient(call):
    a = Maker(array_api, requires_grad=True)
    total(call(array_api, a)).backward()
    for i, x in enumerate(a.made):
        direction = np.random.default_rng(1).normal(size=x.shape)
        ends = [float(total(call(array_api, Maker(array_api, (i, h * direction))))) for h in (1e-6, -1e-6)]
        slope = 0.0 if x.grad is None else float((np.asarray(x.grad) * direction).sum())
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-6)


def check_forward(call):
    """The derivative along a direction in all operands, in forward mode and in reverse."""
    a = Maker(array_api, requires_grad=True)
    total(call(array_api, a)).backward()
    directions = [lucid.tensor(np.random.default_rng(1).normal(size=x.shape)) for x in a.made]

    def of_operands(*operands):
        remaining = iter(operands)
        return total(call(array_api, lambda values: next(remaining)))

    _, slope = lucid.func.jvp(of_operands, tuple(x.detach() for x in a.made), tuple(directions))
    pairs = [(x.grad, d) for x, d in zip(a.made, directions, strict=True) if x.grad is not None]
    np.testing.assert_allclose(float(slope), sum(float((g * d).sum()) for g, d in pairs), rtol=1e-6, atol=1e-8)


def report(name):
    try:
        check_values(CASES[name])
        if name in GRAD:
            check_gradient(GRAD[name])
            check_forward(GRAD[name])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


def reports_of(program):
    """Run a file of cases with SciPy's switch on: what it reports of each."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    lucid.set_default_dtype(lucid.float64)  # what NumPy gives where SciPy names no type
    json.dump({name: report(name) for name in CASES}, sys.stdout)
