"""Every operation by itself, against PyTorch: forward, and forward with gradients.

    python -m benchmarks.operations --size 1000 --dtype float32 --only softmax cumsum
    python -m benchmarks.operations --size 10 --rows 20000

Both libraries run the same lines on the same numbers, with two threads each, in turns. What is reported is how many times
as fast as PyTorch Lucid is: the median over the rounds, of each call, and what they have in common.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.further_operations import FURTHER
from benchmarks.libraries import Thunk
from benchmarks.timing import in_turns

LEVEL = 0.95  # of PyTorch's speed, from which on a call counts as level
SIZES = (16, 1000)  # of the table that `python -m benchmarks` prints
# PyTorch's threads, those of GNU OpenMP, wait for work in 300,000 turns of a loop, 15 ms on x86-64: within that time the
# other library would have one core less.
PAUSE = 0.03
Call = Callable[..., Any]  # of a namespace, as `lucid` or `torch`, and tensors


class Case(NamedTuple):
    """A call, and what it is given: names of the operands that `_operand` makes."""

    call: Call
    operands: tuple[str, ...] = ("x",)
    has_gradient: bool = True


def _cases() -> dict[str, Case]:
    one: dict[str, Call] = {
        "exp": lambda m, x: m.exp(x),
        "sin": lambda m, x: m.sin(x),
        "tanh": lambda m, x: m.tanh(x),
        "sigmoid": lambda m, x: m.sigmoid(x),
        "relu": lambda m, x: m.relu(x),
        "gelu": lambda m, x: m.nn.functional.gelu(x),
        "silu": lambda m, x: m.nn.functional.silu(x),
        "elu": lambda m, x: m.nn.functional.elu(x),
        "erf": lambda m, x: m.erf(x),
        "softplus": lambda m, x: m.nn.functional.softplus(x),
        "clamp": lambda m, x: m.clamp(x, -0.5, 0.5),
        "square": lambda m, x: x**2,
        "add number": lambda m, x: x + 1.5,
        "sum": lambda m, x: x.sum(),
        "sum of rows": lambda m, x: x.sum(1),
        "sum of columns": lambda m, x: x.sum(0),
        "mean": lambda m, x: x.mean(),
        "mean of rows": lambda m, x: x.mean(1),
        "var": lambda m, x: x.var(),
        "var of rows": lambda m, x: x.var(1),
        "std of columns": lambda m, x: x.std(0),
        "prod of rows": lambda m, x: x.prod(1),
        "max": lambda m, x: x.max(),
        "max of rows": lambda m, x: x.max(1).values,
        "max of columns": lambda m, x: x.max(0).values,
        "norm": lambda m, x: m.linalg.norm(x),
        "norm of rows": lambda m, x: m.linalg.norm(x, dim=1),
        "logsumexp": lambda m, x: m.logsumexp(x, 1),
        "softmax": lambda m, x: m.softmax(x, 1),
        "softmax of columns": lambda m, x: m.softmax(x, 0),
        "log_softmax": lambda m, x: m.log_softmax(x, 1),
        "cumsum": lambda m, x: m.cumsum(x, 1),
        "cumsum of columns": lambda m, x: m.cumsum(x, 0),
        "cumprod": lambda m, x: m.cumprod(x, 1),
        "slice": lambda m, x: x[::2, 3:] + 0,
        "clone": lambda m, x: x.clone(),
        "transpose, contiguous": lambda m, x: x.t().contiguous(),
        "flip": lambda m, x: m.flip(x, (1,)),
        "roll": lambda m, x: m.roll(x, 3, 1),
        "pad": lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1)),
        "tril": lambda m, x: m.tril(x),
        "diagonal": lambda m, x: m.diagonal(x) + 0,
        "repeat": lambda m, x: x.repeat(2, 1),
        "topk": lambda m, x: m.topk(x, 4).values,
        "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[1:]),
        "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, x.shape[1:]),
        "group_norm": lambda m, x: m.nn.functional.group_norm(x.reshape(x.shape[0] // 4, 4, -1), 2),
        "batch_norm": lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
        "batch_norm of images": lambda m, x: m.nn.functional.batch_norm(
            x.reshape(-1, 4, x.shape[1]), None, None, training=True
        ),
        "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5),
        "max_pool2d": lambda m, x: m.nn.functional.max_pool2d(x[None, None], 2),
        "avg_pool2d": lambda m, x: m.nn.functional.avg_pool2d(x[None, None], 2),
        "interpolate": lambda m, x: m.nn.functional.interpolate(x[None, None], scale_factor=2),
        "interpolate, bilinear": lambda m, x: m.nn.functional.interpolate(
            x[None, None], scale_factor=2, mode="bilinear"
        ),
        "interpolate, bicubic": lambda m, x: m.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic"),
    }
    two: dict[str, Call] = {
        "add": lambda m, x, y: x + y,
        "sub": lambda m, x, y: x - y,
        "mul": lambda m, x, y: x * y,
        "maximum": lambda m, x, y: m.maximum(x, y),
        "atan2": lambda m, x, y: m.atan2(x, y),
        "lerp": lambda m, x, y: m.lerp(x, y, 0.3),
        "where": lambda m, x, y: m.where(x > 0, x, y),
        "cat": lambda m, x, y: m.cat([x, y]),
        "cat of columns": lambda m, x, y: m.cat([x, y], 1),
        "stack": lambda m, x, y: m.stack([x, y]),
        "mse_loss": lambda m, x, y: m.nn.functional.mse_loss(x, y),
        "l1_loss": lambda m, x, y: m.nn.functional.l1_loss(x, y),
        "smooth_l1_loss": lambda m, x, y: m.nn.functional.smooth_l1_loss(x, y),
    }
    positive: dict[str, Call] = {
        "log": lambda m, p: m.log(p),
        "log1p": lambda m, p: m.log1p(p),
        "sqrt": lambda m, p: m.sqrt(p),
        "rsqrt": lambda m, p: m.rsqrt(p),
        "prod": lambda m, p: p.prod(1),
    }
    counted: dict[str, Call] = {
        "argmax": lambda m, x: m.argmax(x, 1),
        "argmax of columns": lambda m, x: m.argmax(x, 0),
        "argmax of all": lambda m, x: m.argmax(x),
        "comparison": lambda m, x: x > 0.5,
        "zeros": lambda m, x: m.zeros(x.shape),
        "arange": lambda m, x: m.arange(x.shape[0] * x.shape[1]),
        "randn": lambda m, x: m.randn(*x.shape),
        "rand": lambda m, x: m.rand(*x.shape),
    }

    def assigned(m: Any, x: Any, y: Any) -> Any:
        out = x.clone()
        out[1:-1, 1:] = y[1:-1, 1:]
        return out

    return {
        **{name: Case(call) for name, call in one.items()},
        **{name: Case(call, ("x", "y")) for name, call in two.items()},
        **{name: Case(call, ("p",)) for name, call in positive.items()},
        **{name: Case(call, ("x",), False) for name, call in counted.items()},
        "div": Case(lambda m, x, p: x / p, ("x", "p")),
        "pow": Case(lambda m, p, y: p**y, ("p", "y")),
        "add row": Case(lambda m, x, v: x + v, ("x", "v")),
        "mul column": Case(lambda m, x, c: x * c, ("x", "c")),
        "masked_fill": Case(lambda m, x, mask: x.masked_fill(mask, 0.0), ("x", "mask")),
        "index by mask": Case(lambda m, x, mask: x[mask], ("x", "mask")),
        "index by tensor": Case(lambda m, x, k: x[k], ("x", "k")),
        "index_select": Case(lambda m, x, columns: m.index_select(x, 1, columns), ("x", "columns")),
        "assignment": Case(assigned, ("x", "y")),
        "gather": Case(lambda m, x, places: m.gather(x, 1, places), ("x", "places")),
        "scatter_add": Case(lambda m, x, places, y: x.scatter_add(1, places, y), ("x", "places", "y")),
        "index_add": Case(lambda m, x, k, y: m.index_add(x, 0, k, y), ("x", "k", "y")),
        "one_hot": Case(lambda m, few: m.nn.functional.one_hot(few, 16), ("few",), False),
        "embedding": Case(lambda m, k, x: m.nn.functional.embedding(k, x), ("k", "x")),
        "layer_norm, affine": Case(
            lambda m, x, v, w: m.nn.functional.layer_norm(x, x.shape[1:], v, w), ("x", "v", "w")
        ),
        "cross_entropy": Case(lambda m, x, k: m.nn.functional.cross_entropy(x, k), ("x", "k")),
        "nll_loss": Case(lambda m, x, k: m.nn.functional.nll_loss(x, k), ("x", "k")),
        "bce": Case(lambda m, u, q: m.nn.functional.binary_cross_entropy(u, q), ("u", "q")),
        "bce with logits": Case(
            lambda m, x, q: m.nn.functional.binary_cross_entropy_with_logits(x, q), ("x", "q")
        ),
        "kl_div": Case(lambda m, x, q: m.nn.functional.kl_div(x, q, reduction="batchmean"), ("x", "q")),
    }  # fmt: skip


CASES = _cases()
BESIDE = {
    name: Case(call, tuple(operands.split()), False)
    for operands, calls in FURTHER.items()
    for name, call in calls.items()
}
_INDICES = ("k", "few", "columns", "places")
_FIXED = ("q", "mask", *_INDICES)  # nothing is differentiated by these
Shape = tuple[int, int]


def _operand(name: str, matrix: Shape, dtype: str) -> np.ndarray:
    """Numbers of a matrix or vector, the same for both libraries."""
    rng = np.random.default_rng(sum(map(ord, name)))
    rows, n = matrix
    if name in _INDICES:
        shape = {"columns": (n,), "places": matrix}.get(name, (rows,))
        return rng.integers(0, {"k": min(matrix), "few": 16}.get(name, n), shape)
    if name == "mask":
        return rng.random(matrix) < 0.5
    shape = {"v": (n,), "w": (n,), "c": (rows, 1)}.get(name, matrix)
    if "int" in dtype:
        return rng.integers(1, 10, shape)
    exact = "float64" if dtype in ("float64", "complex128") else "float32"
    if name in ("p", "u", "q"):
        return (0.1 + 0.8 * rng.random(shape)).astype(exact)
    return rng.standard_normal(shape).astype(exact)


def _tensors(m: Any, case: Case, matrix: Shape, dtype: str, transposed: bool, wants_gradient: bool) -> list[Any]:
    found = []
    for name in case.operands:
        t = m.tensor(_operand(name, matrix, dtype))
        if name not in (*_INDICES, "mask"):
            t = t.to(getattr(m, dtype))
        if transposed and t.ndim == 2 and name not in _FIXED and not found:
            t = t.t().contiguous().t()
        if wants_gradient and name not in _FIXED:
            t = t.detach().requires_grad_()
        found.append(t)
    return found


def _thunk(m: Any, case: Case, matrix: Shape, dtype: str, transposed: bool, wants_gradient: bool) -> Thunk:
    tensors = _tensors(m, case, matrix, dtype, transposed, wants_gradient)
    if not wants_gradient:
        return lambda: case.call(m, *tensors)
    leaves = [t for t in tensors if t.requires_grad]
    ct = m.ones_like(case.call(m, *tensors).detach())
    return lambda: m.autograd.grad(case.call(m, *tensors), leaves, ct)


def measure(
    name: str,
    matrix: Shape,
    dtype: str = "float32",
    transposed: bool = False,
    wants_gradient: bool = False,
    rounds: int = 15,
) -> dict[str, float]:
    """Seconds of one call in each library, for matrices of a shape."""
    import torch

    import lucid

    case = CASES[name] if name in CASES else BESIDE[name]
    thunks = {
        m.__name__: _thunk(m, case, matrix, dtype, transposed, wants_gradient and case.has_gradient)
        for m in (lucid, torch)
    }
    times = in_turns(thunks, rounds, seconds=0.002 if max(matrix) <= 300 else 0.005, pause=PAUSE)
    return {library: t.median for library, t in times.items()}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("--size", nargs="+", type=int, default=[1000], help="rows and columns of the matrices")
    parser.add_argument("--rows", type=int, help="rows of the matrices, if these are not square")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--transposed", action="store_true", help="the first operand lies in memory by columns")
    parser.add_argument("--only", nargs="+", choices=[*CASES, *BESIDE], metavar="NAME")
    parser.add_argument("--further", action="store_true", help="the calls of benchmarks/further_operations.py instead")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times to a file")
    options = parser.parse_args(given)
    if options.further and options.rows:
        parser.error("--further takes square matrices")
    options.only = options.only or list(BESIDE if options.further else CASES)
    return options


def compare(
    names: Sequence[str], matrix: Shape, dtype: str, transposed: bool, rounds: int
) -> Iterator[tuple[str, Any]]:
    """The times of calls, forward and with gradient, one after the other."""
    import torch

    torch.set_num_threads(min(2, os.cpu_count() or 1))
    for name in names:
        has_gradient = name in CASES and CASES[name].has_gradient and "int" not in dtype
        for wants_gradient in (False, True)[: 1 + has_gradient]:
            label = name + (" with gradient" if wants_gradient else "")
            yield label, measure(name, matrix, dtype, transposed, wants_gradient, rounds)


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    everything = []
    for n in options.size:
        found, matrix = [], (options.rows or n, n)
        for label, times in compare(options.only, matrix, options.dtype, options.transposed, options.rounds):
            ratio = times["torch"] / times["lucid"]
            found.append((label, ratio))
            everything.append({"size": n, "rows": matrix[0], "call": label, **times})
            both = "".join(f"{times[m] * 1e6:10.1f} µs " for m in ("lucid", "torch"))
            print(f"{n:5} {label:40} {both} {ratio:6.2f}x", flush=True)
        ratios = [r for _, r in found]
        level, middle = sum(r >= LEVEL for r in ratios), statistics.median(ratios)
        print(f"{matrix[0]} x {n} {options.dtype}: {level} of {len(ratios)} level or ahead, median {middle:.2f}x")
        behind = sorted((r, label) for label, r in found if r < LEVEL)
        print("behind: " + ", ".join(f"{label} {r:.2f}" for r, label in behind))
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
