"""Weights with orthonormal rows or columns, made from free parameters by one of three maps.

With A the skew-hermitian matrix that the lower triangle of X determines, Q is exp(A) ("matrix_exp"), its Cayley
transform (I + A/2)(I - A/2)⁻¹ ("cayley"), or a product of the reflections that the columns of X determine
("householder").
"""

import lucid
from lucid import Tensor
from lucid.nn.module import Module

MAPS = ("matrix_exp", "cayley", "householder")


def chosen_map(weight: Tensor, orthogonal_map: str | None) -> str:
    """The map asked for, or the one that suits a weight best."""
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix or a stack of matrices, not a weight of shape {weight.shape}")
    if orthogonal_map is None:
        return "matrix_exp" if weight.shape[-1] == weight.shape[-2] or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {', '.join(MAPS)}, not {orthogonal_map!r}")
    if orthogonal_map == "householder" and weight.is_complex():
        raise ValueError("orthogonal: the map 'householder' does not take complex weights; use 'matrix_exp'")
    return orthogonal_map


def orthonormal_basis(matrix: Tensor) -> Tensor:
    """The Q of A = Q R whose R has a positive diagonal."""
    q, r = lucid.linalg.qr(matrix)
    return q * _signs(r).unsqueeze(-2)


def is_orthonormal(matrix: Tensor) -> bool:
    n, k = matrix.shape[-2:]
    eye = lucid.eye(k, dtype=matrix.dtype).expand(*matrix.shape[:-2], k, k)
    return lucid.allclose(matrix.mH @ matrix, eye, atol=10 * n * lucid.finfo(matrix.dtype).eps)


class Orthogonal(Module):
    """Computes a matrix with orthonormal columns, or rows if there are fewer of them.

    >>> import lucid
    >>> from lucid.nn.utils.orthogonality import Orthogonal
    >>> q = Orthogonal("cayley", (3, 2))(lucid.randn(3, 2))
    >>> lucid.allclose(q.T @ q, lucid.eye(2), atol=1e-5)
    True
    """

    def __init__(self, orthogonal_map: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.orthogonal_map = orthogonal_map
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        q = self.columns(x.mT if wide else x)
        return q.mT if wide else q

    def columns(self, x: Tensor) -> Tensor:
        """The result for a matrix with at least as many rows as columns."""
        return self._reflected(x) if self.orthogonal_map == "householder" else self._rotated(x)

    def _rotated(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        lower = x.tril()
        if n != k:
            lower = lucid.cat([lower, lucid.zeros(*x.shape[:-1], n - k, dtype=x.dtype)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            q: Tensor = lucid.linalg.matrix_exp(skew)
        else:
            eye = lucid.eye(n, dtype=x.dtype)
            q = lucid.linalg.solve(eye - skew * 0.5, eye + skew * 0.5)
        return q[..., :k]

    def _reflected(self, x: Tensor) -> Tensor:
        below = x.tril(-1)
        factors = 2 / (1 + (below * below).sum(-2))
        q: Tensor = lucid.linalg.householder_product(below, factors)
        # The diagonal holds signs, which are not trained.
        return q * x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)

    def _checked(self, q: Tensor) -> tuple[Tensor, bool]:
        """A weight to start from with at least as many rows as columns, and whether it had fewer."""
        if q.shape != self.shape:
            raise ValueError(f"orthogonal: expected a weight of shape {self.shape}, not {q.shape}")
        wide = q.shape[-2] < q.shape[-1]
        return (q.mT if wide else q), wide

    def extra_repr(self) -> str:
        return f"orthogonal_map={self.orthogonal_map!r}"


class Reflections(Orthogonal):
    """The product of reflections, whose parameters a QR factorization finds for any weight."""

    def right_inverse(self, q: Tensor) -> Tensor:
        tall, wide = self._checked(q)
        found, factors = lucid.geqrf(tall)
        signs = _signs(found)
        # A factor of 0 is no reflection, which the map would take for one of the axis.
        signs = lucid.where(factors == 0, -signs, signs)
        out = found.tril(-1) + lucid.eye(*tall.shape[-2:], dtype=tall.dtype) * signs.unsqueeze(-2)
        return (out.mT if wide else out).contiguous()


class Trivialized(Orthogonal):
    """Any of the maps, multiplied by a base with orthonormal columns: the weight that training starts from.

    Parameters are then always small, and every orthonormal weight can be assigned.
    """

    base: Tensor

    def __init__(self, orthogonal_map: str, shape: tuple[int, ...]) -> None:
        super().__init__(orthogonal_map, shape)
        self.register_buffer("base", None)

    def columns(self, x: Tensor) -> Tensor:
        return self.base @ super().columns(x)

    def right_inverse(self, q: Tensor) -> Tensor:
        tall, wide = self._checked(q)
        n, k = tall.shape[-2:]
        if n != k:
            # The columns that the weight does not have can be any.
            rest = lucid.randn(*tall.shape[:-1], n - k, dtype=tall.dtype)
            self.base = orthonormal_basis(lucid.cat([tall, rest], -1))
        else:
            self.base = tall.clone() if is_orthonormal(tall) else orthonormal_basis(tall)
        # All three maps take it to the first columns of the identity.
        origin = -lucid.eye(n, k, dtype=tall.dtype).expand(*tall.shape)
        return (origin.mT if wide else origin).contiguous()


def _signs(triangle: Tensor) -> Tensor:
    """Of the diagonal, 1 for 0."""
    found = triangle.diagonal(dim1=-2, dim2=-1).sgn()
    return lucid.where(found == 0, 1, found)


def parametrization(weight: Tensor, orthogonal_map: str | None, use_trivialization: bool) -> Orthogonal:
    """The module that computes orthonormal weights like this one."""
    chosen = chosen_map(weight, orthogonal_map)
    if use_trivialization:
        return Trivialized(chosen, weight.shape)
    return (Reflections if chosen == "householder" else Orthogonal)(chosen, weight.shape)
