"""Rosenbrock's valley in many dimensions: SciPy's minimizers with exact derivatives, and a sparse Newton.

f(x) = Σ 100 (x[i+1] - x[i]²)² + (1 - x[i])² is least, 0, where all x are 1. Its Hessian has three diagonals, which
`sparse_hessian` finds with three products, however many dimensions there are.

In many dimensions the methods start at 1 ± 0.25, near the solution: the table compares their speed, not how well they
find the valley from afar. In two dimensions they start at the classic point (-1.2, 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from extras import BLUE, GREEN, ORANGE, PURPLE, figure, save
from options import parsed
from progress import progress
from scipy.optimize import OptimizeResult
from scipy.sparse import eye_array
from scipy.sparse.linalg import spsolve

import lucid
from lucid.func import hessian_pattern, sparse_hessian

# The methods, what they use, and whether they suit many dimensions.
METHODS = {
    "Nelder-Mead": ("values", False),
    "CG": ("gradients", True),
    "BFGS": ("gradients", True),
    "L-BFGS-B": ("gradients", True),
    "Newton-CG": ("Hessian products", True),
    "trust-ncg": ("Hessian products", True),
    "trust-exact": ("whole Hessian", True),
}
SPARSE = "sparse Newton"


def rosenbrock(x: lucid.Tensor) -> lucid.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def sparse_newton(
    fun: Callable[..., Any],
    x0: np.ndarray,
    *,
    jac: Callable[..., Any],
    callback: Any = None,
    gtol: float = 1e-6,
    **_: Any,
) -> OptimizeResult:
    """A method for `minimize`: Newton's steps, each solving a system with the sparse Hessian, halved until f falls."""
    pattern = hessian_pattern(rosenbrock, lucid.tensor(x0))
    x, value, gradient, steps, calls = x0, fun(x0), jac(x0), 0, 1
    while np.abs(gradient).max() > gtol:
        curvature = sparse_hessian(rosenbrock, lucid.tensor(x), pattern=pattern)
        direction = downhill(curvature, gradient)
        length = 1.0
        while True:
            calls += 1
            new = fun(x + length * direction)
            if new <= value + 1e-4 * length * (gradient @ direction):
                break
            length /= 2
        x, value, steps = x + length * direction, new, steps + 1
        gradient = jac(x)
        if callback is not None:
            callback(x)
    return OptimizeResult(x=x, fun=value, jac=gradient, nit=steps, nfev=calls, success=True)


def downhill(curvature: Any, gradient: np.ndarray) -> np.ndarray:
    """Newton's direction; where that does not lead down, the Hessian is shifted until it does."""
    shift = 0.0
    while True:
        direction = -spsolve((curvature + shift * eye_array(len(gradient))).tocsc(), gradient)
        if gradient @ direction < -1e-10 * np.linalg.norm(gradient) * np.linalg.norm(direction):
            return direction
        shift = max(4 * shift, 1.0)


@dataclass
class Row:
    """How one method did."""

    method: str
    uses: str
    dimensions: int
    iterations: int
    evaluations: int
    seconds: float
    value: float
    error: float
    path: np.ndarray


def search(method: str, uses: str, start: lucid.Tensor, keep_path: bool = False) -> Row:
    path = [start.numpy()]

    def keep(state: Any) -> None:
        path.append(state.x.numpy())

    begin = perf_counter()
    chosen = sparse_newton if method == SPARSE else method
    found = lucid.optim.minimize(rosenbrock, start, method=chosen, callback=keep if keep_path else None)
    seconds = perf_counter() - begin
    error = float((found.x - 1).abs().max().item())
    return Row(method, uses, len(start), found.nit, found.nfev, seconds, float(found.fun), error, np.stack(path))


def print_table(rows: list[Row]) -> None:
    columns = ("dimensions", "iterations", "evaluations", "seconds", "f", "error")
    print(f"\n{'method':15}{'uses':18}{''.join(f'{name:>12}' for name in columns)}")
    for r in rows:
        counts = f"{r.dimensions:12}{r.iterations:12}{r.evaluations:12}"
        print(f"{r.method:15}{r.uses:18}{counts}{r.seconds:12.2f}{r.value:12.1e}{r.error:12.1e}")


def draw(rows: list[Row], folder: Path) -> Path:
    """The paths of four methods in two dimensions."""
    made = figure(10, 7.2)
    x, y = np.meshgrid(np.linspace(-1.7, 1.5, 300), np.linspace(-0.8, 2.2, 300))
    height = 100 * (y - x**2) ** 2 + (1 - x) ** 2
    colors = (ORANGE, GREEN, PURPLE, BLUE)
    for axes, row, color in zip(made.subplots(2, 2, sharex=True, sharey=True).flat, rows, colors, strict=True):
        axes.contourf(x, y, np.log10(height + 1e-3), levels=14, cmap="Greys", alpha=0.55)
        axes.plot(*row.path.T, "o-", ms=3.5, lw=1.2, color=color)
        axes.plot(1, 1, "*", ms=13, color="gold", mec="black", mew=0.7)
        axes.set(xlim=(-1.7, 1.5), ylim=(-0.8, 2.2))
        axes.set_title(f"{row.method}: {row.iterations} iterations, {row.evaluations} evaluations")
    return save(made, folder, "rosenbrock")


def main(argv: Sequence[str] | None = None) -> list[Row]:
    options = parsed(__doc__, argv)
    many, most = (20, 1000) if options.quick else (500, 100_000)
    small = lucid.tensor([-1.2, 1.0], dtype=lucid.float64)
    wide = {n: 0.75 + 0.5 * lucid.rand(n, dtype=lucid.float64) for n in (many, most)}
    searches = [(name, uses, small) for name, (uses, _) in METHODS.items()] + [(SPARSE, "sparse Hessian", small)]
    searches += [(name, uses, wide[many]) for name, (uses, scales) in METHODS.items() if scales]
    searches += [(SPARSE, "sparse Hessian", start) for start in wide.values()]
    rows = []
    for k, (method, uses, start) in enumerate(searches, 1):
        rows.append(search(method, uses, start, keep_path=start is small))
        progress(k, len(searches), f"{method} in {len(start)} dimensions")
    print_table(rows)
    drawn = ("Nelder-Mead", "BFGS", "Newton-CG", SPARSE)
    draw([r for r in rows if r.dimensions == 2 and r.method in drawn], options.output)
    return rows


if __name__ == "__main__":
    main()
