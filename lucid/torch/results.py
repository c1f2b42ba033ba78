"""The types of several results, under PyTorch's names; of tensors of the front door they print as PyTorch's do.

>>> import lucid.torch as torch
>>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).max(1)
torch.return_types.max(
values=tensor([4., 3.]),
indices=tensor([1, 0]))
>>> isinstance(torch.ones(2).sort(), torch.return_types.sort)
True
"""

from typing import Any

from lucid.api import counting, results
from lucid.linalg import classic, determinants, eigen, factorizations, indefinite, least_squares, orthogonal, solvers
from lucid.ops import floating
from lucid.torch.tensors import Tensor

# Where two functions share a class, it prints by the first name.
_TYPES: dict[str, type] = {
    "aminmax": results.Aminmax,
    "cummax": results.Cummax,
    "cummin": results.Cummin,
    "frexp": floating.Frexp,
    "geqrf": orthogonal.Reflections,
    "histogram": counting.Histogram,
    "histogramdd": counting.HistogramDD,
    "kthvalue": results.Kthvalue,
    "linalg_cholesky_ex": factorizations.CholeskyEx,
    "linalg_eigh": eigen.Eigen,
    "linalg_eig": eigen.Eigen,
    "linalg_inv_ex": solvers.InvExResult,
    "linalg_ldl_factor": indefinite.LDLFactor,
    "linalg_ldl_factor_ex": indefinite.LDLFactorEx,
    "linalg_lstsq": least_squares.LstsqResult,
    "linalg_lu": factorizations.PLU,
    "linalg_lu_factor": factorizations.LUFactor,
    "linalg_lu_factor_ex": factorizations.LUFactorEx,
    "linalg_qr": orthogonal.QR,
    "linalg_slogdet": determinants.SlogdetResult,
    "linalg_solve_ex": solvers.SolveExResult,
    "linalg_svd": eigen.SVD,
    "lu_unpack": factorizations.PLU,
    "max": results.Max,
    "median": results.Median,
    "min": results.Min,
    "mode": results.Mode,
    "nanmedian": results.Nanmedian,
    "qr": orthogonal.QR,
    "slogdet": determinants.SlogdetResult,
    "sort": results.Sort,
    "svd": classic.USV,
    "topk": results.Topk,
    "triangular_solve": classic.TriangularSolve,
}
__all__ = list(_TYPES)
globals().update(_TYPES)


def _shown(result: Any, name: str) -> str:
    if not name:
        return tuple.__repr__(result)
    if name == "linalg_eigh" and result.eigenvalues.is_complex():
        name = "linalg_eig"
    entries = ",\n".join([f"{field}={value!r}" for field, value in zip(result._fields, result, strict=True)])
    return f"torch.return_types.{name}(\n{entries})"


def _print_as(name: str, kind: Any) -> None:
    """Let results of a class print by a name, or as plain tuples, if their tensors are those of the front door."""
    plain = kind.__repr__

    def written(self: Any) -> str:
        return _shown(self, name) if Tensor in type(self[0]).__mro__ else plain(self)

    kind.__repr__ = written


for _kind in dict.fromkeys(_TYPES.values()):
    _print_as(next(name for name, kind in _TYPES.items() if kind is _kind), _kind)
for _kind in (results.StdMean, results.VarMean):
    _print_as("", _kind)
