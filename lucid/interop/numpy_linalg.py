"""The functions of numpy.linalg in terms of lucid.linalg, which loads when one of them is needed.

Results come in NumPy's own named tuples, and what has no result raises numpy.linalg.LinAlgError.
"""

from importlib import import_module
from typing import Any

import numpy as np

from lucid.api import contractions, indexing, reductions, shaping, sorting, splitting
from lucid.arguments import promotion
from lucid.arguments.dims import one_dim
from lucid.arguments.promotion import as_floats
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain
from lucid.interop.numpy_functions import Function
from lucid.ops import binary, unary

_NO_VALUE = np._NoValue
_ONE = np.eye(1)  # what NumPy's functions are called with to see the type of their results


def _linalg(name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of lucid.linalg, with NumPy's error for matrices of which it has no result."""
    home = import_module("lucid.linalg")
    try:
        return getattr(home, name)(*args, **kwargs)
    except home.LinAlgError as error:
        raise np.linalg.LinAlgError(str(error)) from None


def _promoted(*values: Any) -> list[Tensor]:
    """Operands as tensors of one type."""
    tensors = [lift(v) for v in values]
    target = tensors[0].np_dtype
    for t in tensors[1:]:
        target = promotion.promote_pair(target, t.np_dtype)
    return [t.to(target) for t in tensors]


def _floats(*values: Any) -> list[Tensor]:
    return _promoted(*[as_floats(v) for v in values])


def _of_floats(name: str) -> Function:
    return lambda a: _linalg(name, as_floats(a))


# --- eigenvalues and factorizations ------------------------------------------------------------


def _as_real(*found: Tensor) -> tuple[Tensor, ...]:
    """NumPy's eigenvalues of a real matrix are real where all are; a batched or traced tensor does not tell."""
    values = found[0]
    if is_plain(values) and not values.detach().imag.numpy().any():
        return tuple(unary.real(t) for t in found)
    return found


def _eigvals(a: Any) -> Tensor:
    x = as_floats(a)
    found: Tensor = _linalg("eigvals", x)
    return found if x.is_complex() else _as_real(found)[0]


def _eig(a: Any) -> Any:
    x = as_floats(a)
    found = _linalg("eig", x)
    return type(np.linalg.eig(_ONE))(*(found if x.is_complex() else _as_real(*found)))


def _eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803  (the name is NumPy's)
    return type(np.linalg.eigh(_ONE))(*_linalg("eigh", as_floats(a), UPLO))


def _slogdet(a: Any) -> Any:
    return type(np.linalg.slogdet(_ONE))(*_linalg("slogdet", as_floats(a)))


def _qr(a: Any, mode: str = "reduced") -> Any:
    x = as_floats(a)
    if mode == "raw":
        reflections, tau = import_module("lucid.linalg.orthogonal").geqrf(x)
        return reflections.mT, tau
    found = _linalg("qr", x, mode)
    return found.R if mode == "r" else type(np.linalg.qr(_ONE))(*found)


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = as_floats(a)
    if not compute_uv:
        if not hermitian:
            return _linalg("svdvals", x)
        return sorting.sort(unary.abs(_linalg("eigvalsh", x)), -1, True).values
    found = _hermitian_svd(x) if hermitian else _linalg("svd", x, full_matrices)
    return type(np.linalg.svd(_ONE))(*found)


def _hermitian_svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By eigenvalues, of which the negative ones turn the vectors on the right around."""
    values, vectors = _linalg("eigh", x)
    order = sorting.argsort(unary.abs(values), -1, descending=True)
    values = indexing.take_along_dim(values, order, -1)
    vectors = indexing.take_along_dim(vectors, order.unsqueeze(-2), -1)
    turned = vectors * unary.sign(values.detach()).unsqueeze(-2).to(vectors.dtype)
    return vectors, unary.abs(values), unary.conj(turned).mT


# --- equations ---------------------------------------------------------------------------------


def _solve(a: Any, b: Any) -> Tensor:
    x, y = _floats(a, b)
    if y.ndim > 1 and y.shape == x.shape[:-1]:  # which lucid takes for vectors, and NumPy for a matrix
        y = y.unsqueeze(0)
    return _linalg("solve", x, y)


def _lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Tensor, ...]:
    x, y = _floats(a, b)
    if x.ndim != 2 or y.ndim not in (1, 2):
        raise np.linalg.LinAlgError(f"lstsq: expected a matrix and a vector or matrix, not {x.shape} and {y.shape}")
    limit = None if rcond is None else float(rcond) if rcond >= 0 else float(np.finfo(x.np_dtype).eps)
    found = _linalg("lstsq", x, y, limit, driver="gelsd")
    rank, residuals = found.rank, found.residuals
    if is_plain(rank) and rank.item() < x.shape[-1]:
        residuals = residuals.detach()[:0]
    return found.solution, residuals, rank, found.singular_values


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NO_VALUE) -> Tensor:
    if rcond is None:
        rcond = 1e-15 if rtol is _NO_VALUE else rtol
    return _linalg("pinv", as_floats(a), hermitian=hermitian, rtol=rcond)


def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:  # noqa: N803
    x = as_floats(A)
    if x.ndim < 2:
        return reductions.any(binary.ne(x, 0)).long()
    return _linalg("matrix_rank", x, tol, hermitian, rtol=rtol)


def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    return _linalg("tensorsolve", *_floats(a, b), axes)


# --- norms and products ------------------------------------------------------------------------


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    t = as_floats(x)
    dims = axis if axis is None or isinstance(axis, tuple) else (int(axis),)
    if ord is None:
        return reductions.norm(t, 2, dims, keepdims)
    if dims is None:
        if t.ndim not in (1, 2):
            raise ValueError(f"norm: an order needs a vector, a matrix or an axis, not shape {t.shape} alone")
        dims = tuple(range(t.ndim))
    if len(dims) == 1:
        return reductions.norm(t, ord, dims, keepdims)
    return _linalg("matrix_norm", t, ord, dims, keepdims)


def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return _norm(x, ord, (-2, -1), keepdims)


def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    t = as_floats(x)
    return reductions.norm(t, 2 if ord is None else ord, axis, keepdims)


def _matrix_power(a: Any, n: int) -> Tensor:
    return _linalg("matrix_power", as_floats(a) if n < 0 else lift(a), n)


def _multi_dot(arrays: Any) -> Tensor:
    return _linalg("multi_dot", _promoted(*arrays))


def _cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    x, y = _promoted(x1, x2)
    if any(t.shape[one_dim(axis, t.ndim, "cross")] != 3 for t in (x, y)):
        raise ValueError(f"cross: both must have 3 elements along axis {axis}, not shapes {x.shape} and {y.shape}")
    x, y = shaping.broadcast_tensors(shaping.movedim(x, axis, -1), shaping.movedim(y, axis, -1))
    return shaping.movedim(contractions.cross(x, y, -1), -1, axis)


def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    x, y = (shaping.movedim(t, axis, -1) for t in _promoted(x1, x2))
    return reductions.sum(unary.conj(x) * y, -1)


def _outer(x1: Any, x2: Any, /) -> Tensor:
    return contractions.outer(*_promoted(x1, x2))


def _trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    return reductions.sum(splitting.diagonal(x, offset, -2, -1), -1, dtype=dtype)


def _tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    x, y = _promoted(x1, x2)
    return contractions.tensordot(x, y, axes)


_BY_NAME: dict[str, Function] = {
    **{name: _of_floats(name) for name in ("det", "inv")},
    "cholesky": lambda a, /, *, upper=False: _linalg("cholesky", as_floats(a), upper=upper),
    "cond": lambda x, p=None: _linalg("cond", as_floats(x), p),
    "cross": _cross,
    "diagonal": lambda x, /, *, offset=0: splitting.diagonal(x, offset, -2, -1),
    "eig": _eig,
    "eigh": _eigh,
    "eigvals": _eigvals,
    "eigvalsh": lambda a, UPLO="L": _linalg("eigvalsh", as_floats(a), UPLO),  # noqa: N803  (the name is NumPy's)
    "lstsq": _lstsq,
    "matmul": lambda x1, x2, /: contractions.matmul(x1, x2),
    "matrix_norm": _matrix_norm,
    "matrix_power": _matrix_power,
    "matrix_rank": _matrix_rank,
    "matrix_transpose": lambda x, /: shaping.transpose(x, -2, -1),
    "multi_dot": _multi_dot,
    "norm": _norm,
    "outer": _outer,
    "pinv": _pinv,
    "qr": _qr,
    "slogdet": _slogdet,
    "solve": _solve,
    "svd": _svd,
    "svdvals": lambda x, /: _linalg("svdvals", as_floats(x)),
    "tensordot": _tensordot,
    "tensorinv": lambda a, ind=2: _linalg("tensorinv", as_floats(a), ind),
    "tensorsolve": _tensorsolve,
    "trace": _trace,
    "vecdot": _vecdot,
    "vector_norm": _vector_norm,
}
# NumPy has some of them since version 2.
LINALG: dict[Any, Function] = {
    getattr(np.linalg, name): function for name, function in _BY_NAME.items() if hasattr(np.linalg, name)
}
