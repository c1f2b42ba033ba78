"""What LAPACK cannot do, and which matrix of a stack it could not do it for."""

from typing import Any

import numpy as np


class LinAlgError(RuntimeError):
    """A factorization or solution that does not exist, or an iteration that did not converge.

    >>> import lucid
    >>> try:
    ...     lucid.linalg.cholesky(lucid.tensor([[-1.0]]))
    ... except lucid.linalg.LinAlgError as error:
    ...     print(error)
    linalg.cholesky: the matrix is not positive-definite: its leading minor of order 1 is not positive
    """


def element(index: int, x: Any) -> str:
    """How errors name one matrix of a stack; nothing for a matrix alone."""
    return f"(batch element {index}) " if x.ndim > 2 else ""


def raise_unless_finite(name: str, x: Any) -> None:
    """LAPACK's iterations do not end, or end anywhere, on infinities and nan."""
    finite = np.isfinite(x)
    if not finite.all():
        wrong = int(np.argmin(finite.all((-2, -1)).reshape(-1)))
        raise LinAlgError(f"{name}: {element(wrong, x)}the matrix contains inf or nan")
