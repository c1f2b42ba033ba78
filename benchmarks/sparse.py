"""Products with sparse matrices, against SciPy and PyTorch: forward, and with gradients.

    python -m benchmarks.sparse --rows 20000 --per-row 10 --width 1 16 64

All run on the same numbers, with two threads where they use threads, in turns. What is reported is how many times as fast
as the others Lucid is: the median over the rounds. SciPy has no gradients: it is given the two products that they are.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.libraries import Thunk
from benchmarks.timing import in_turns

NAMES = ("product", "transposed product", "product with gradients", "sampled product", "coordinates to rows")


def matrix(rows: int, per_row: int, dtype: str) -> Any:
    """A square matrix with about so many entries in each row, at random positions."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, rows, (2, rows * per_row))
    values = rng.standard_normal(rows * per_row).astype(dtype)
    found = scipy.sparse.coo_array((values, tuple(places)), shape=(rows, rows)).tocsr()
    found.sum_duplicates()
    return found


def _of_scipy(name: str, a: Any, x: np.ndarray, order: np.ndarray) -> Thunk | None:
    across = a.T
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    pairs = scipy.sparse.coo_array((a.data[order], (rows[order], a.indices[order])), shape=a.shape)
    ones = np.ones((a.shape[0], x.shape[1]), x.dtype)
    calls: dict[str, Thunk] = {
        "product": lambda: a @ x,
        "transposed product": lambda: across @ x,
        "product with gradients": lambda: (a @ x, across @ ones, (ones[rows] * x[a.indices]).sum(1)),
        "sampled product": lambda: np.einsum("kc,kc->k", x[rows], x[a.indices]),
        "coordinates to rows": lambda: pairs.tocsr(),
    }
    return calls[name]


def _of_tensors(m: Any, name: str, a: Any, x: np.ndarray, order: np.ndarray) -> Thunk | None:
    values, dense = m.tensor(a.data), m.tensor(x)
    crow, col = (m.tensor(i.astype(np.int64)) for i in (a.indptr, a.indices))
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    places = m.tensor(np.stack([rows[order], a.indices[order]]).astype(np.int64))
    s = m.sparse_csr_tensor(crow, col, values, a.shape)
    across = s.t()
    ones = m.ones(a.shape[0], x.shape[1], dtype=dense.dtype)

    def with_gradients() -> Any:
        v, d = values.clone().requires_grad_(), dense.clone().requires_grad_()
        return m.autograd.grad(m.sparse_csr_tensor(crow, col, v, a.shape) @ d, (v, d), ones)

    calls: dict[str, Thunk] = {
        "product": lambda: s @ dense,
        "transposed product": lambda: across @ dense,
        "product with gradients": with_gradients,
        "sampled product": lambda: m.sparse.sampled_addmm(s, dense, dense.T, beta=0.0),
        "coordinates to rows": lambda: m.sparse_coo_tensor(places, values, a.shape).to_sparse_csr(),
    }
    try:
        calls[name]()
    except (RuntimeError, NotImplementedError):  # PyTorch without MKL has less
        return None
    return calls[name]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparse", description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[2000, 20000])
    parser.add_argument("--per-row", type=int, default=10, help="entries")
    parser.add_argument("--width", nargs="+", type=int, default=[1, 16, 64], help="columns of the dense factor")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args(given)


def libraries() -> list[Any]:
    """Lucid, and PyTorch where it is installed."""
    import lucid

    try:
        import torch
    except ModuleNotFoundError:
        return [lucid]
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    warnings.filterwarnings("ignore", module="torch")  # that compressed rows are new
    return [lucid, torch]


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    for rows in options.rows:
        a = matrix(rows, options.per_row, options.dtype)
        order = np.random.default_rng(1).permutation(a.nnz)
        for name in options.only:
            for width in options.width if "rows" not in name else options.width[:1]:
                x = np.random.default_rng(2).standard_normal((rows, width)).astype(options.dtype)
                thunks = {m.__name__: _of_tensors(m, name, a, x, order) for m in libraries()}
                thunks["scipy"] = _of_scipy(name, a, x, order)
                there = {library: thunk for library, thunk in thunks.items() if thunk is not None}
                times = {library: t.median for library, t in in_turns(there, options.rounds, 0.005, 0.01).items()}
                shown = "".join(f"{library} {t * 1e3:8.3f} ms  " for library, t in times.items())
                ratios = ", ".join(f"{times[o] / times['lucid']:.2f}x {o}" for o in times if o != "lucid")
                print(f"{rows:7} x {width:3} {name:24} {shown} {ratios}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
