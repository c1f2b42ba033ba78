"""Statistics that are made of reductions: covariance, spread and mean together, both extremes."""

from typing import Any

import numpy as np

from lucid.api import contractions, reductions
from lucid.api.reductions import Dims, pair
from lucid.api.results import Aminmax, StdMean, VarMean
from lucid.arguments.dims import numpy_names
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import as_floats
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.ops import unary
from lucid.ops.norms import unit_size
from lucid.ops.rules import P


@numpy_names
def std_mean(
    input: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> StdMean:
    """The standard deviation and the mean over `dim`, with the arguments of `std`.

    >>> import lucid
    >>> std, mean = lucid.std_mean(lucid.tensor([1.0, 3.0]), correction=0)
    >>> std, mean
    (Tensor(1.), Tensor(2.))
    """
    x, dims, count, divisor = reductions.spread(input, dim, unbiased, correction, "std")
    found = reductions.std_over(x, dims, count, divisor, keepdim)
    return pair(StdMean, found, reductions.mean_over(x, dims, keepdim))


@numpy_names
def var_mean(
    input: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> VarMean:
    """The variance and the mean over `dim`, with the arguments of `var`.

    >>> import lucid
    >>> var, mean = lucid.var_mean(lucid.tensor([1.0, 5.0]), correction=0)
    >>> var, mean
    (Tensor(4.), Tensor(3.))
    """
    x, dims, count, divisor = reductions.spread(input, dim, unbiased, correction, "var")
    found = reductions.var_over(x, dims, count, divisor, keepdim)
    return pair(VarMean, found, reductions.mean_over(x, dims, keepdim))


@takes_out
@numpy_names
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Aminmax:
    """The smallest and the largest element, along `dim` or of all; ties share the gradient.

    >>> import lucid
    >>> low, high = lucid.aminmax(lucid.tensor([[1.0, 5.0], [2.0, 3.0]]), dim=0)
    >>> low, high
    (Tensor([1., 3.]), Tensor([2., 5.]))
    """
    return pair(Aminmax, *reductions.extremes(input, dim, keepdim))


def _observation_weights(weights: Any, count: int, name: str, whole: bool) -> Tensor:
    found = lift(weights)
    if found.ndim > 1 or found.numel() != count:
        raise RuntimeError(f"cov: {name} has shape {found.shape}, but there are {count} observations")
    if whole != (found.np_dtype not in dtypes.DIFFERENTIABLE) or found.np_dtype == dtypes.BOOL:
        kind = "integers" if whole else "floats"
        raise RuntimeError(f"cov: {name} must be {kind}, not {found.dtype}")
    if is_plain(found) and (found._array < 0).any():
        raise RuntimeError(f"cov: {name} must not be negative")
    return P.reshape(found, shape=(count,))


def _weights(x: Tensor, fweights: Any, aweights: Any) -> tuple[Tensor | None, Tensor | None]:
    """The weight of each observation, and the part of it that says how sure the observation is."""
    count = x.shape[1]
    times = None if fweights is None else _observation_weights(fweights, count, "fweights", True)
    sure = None if aweights is None else _observation_weights(aweights, count, "aweights", False)
    if times is None or sure is None:
        return (times if sure is None else sure), sure
    return times * sure, sure


def _divisor(weights: Tensor, sure: Tensor | None, total: Tensor, correction: float) -> Tensor:
    less: Any = correction
    if sure is not None and correction:
        less = correction * P.sum(weights * sure, dims=(0,), keepdim=False) / total
    left = total - less
    return P.where(left <= 0, 0, left)


def cov(input: Any, *, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariances of the rows (variables) over the columns (observations): E[(x - Ex)(y - Ey)*].

    The divisor is the number of observations less `correction`. `fweights` says how often each observation
    occurred, `aweights` how much it counts.

    >>> import lucid
    >>> lucid.cov(lucid.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = lift(input)
    if x.ndim > 2:
        raise RuntimeError(f"cov: expected at most 2 dimensions (variables and observations), not shape {x.shape}")
    if x.np_dtype == dtypes.BOOL:
        raise RuntimeError("cov takes numbers, not booleans; convert them, as in x.float()")
    x = as_floats(x)
    rows = x if x.ndim == 2 else P.reshape(x, shape=(1, x.numel()))
    count = rows.shape[1]
    weights, sure = _weights(rows, fweights, aweights)
    if weights is None:
        centred = rows - P.sum(rows, dims=(1,), keepdim=True) / (float(count) or np.nan)
        weighted, divisor = centred, max(count - correction, 0.0)
    else:
        total = P.sum(weights, dims=(0,), keepdim=False)
        centred = rows - P.sum(rows * weights, dims=(1,), keepdim=True) / total
        weighted, divisor = centred * weights, _divisor(weights, sure, total, correction)
    other = unary.conj(weighted) if weighted.is_complex() else weighted
    out = contractions.matmul(centred, P.permute(other, dims=(1, 0))) / divisor
    return P.reshape(out, shape=()) if out.shape == (1, 1) else out


def corrcoef(input: Any) -> Tensor:
    """Correlation coefficients of the rows: covariances divided by the standard deviations of both variables.

    >>> import lucid
    >>> lucid.corrcoef(lucid.tensor([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]))
    Tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = lift(input)
    if x.ndim and x.np_dtype in dtypes.DIFFERENTIABLE:
        x = x / unit_size(x, dims=(x.ndim - 1,), least=0.0)  # the size of a variable does not matter
    both = cov(x)
    if not both.ndim:
        return both / both
    variance = P.diagonal(both, offset=0, dim1=0, dim2=1)
    spread = unary.sqrt(unary.real(variance) if both.is_complex() else variance)
    out = both / P.reshape(spread, shape=(spread.shape[0], 1)) / spread
    return out if out.is_complex() else unary.clamp(out, -1, 1)
