"""Where PyTorch is installed: the same values, types and gradients for the names that both libraries have.

The samples are those of the table, its kinks and ties included, so that conventions are compared too.
"""

from typing import Any

import numpy as np
import pytest
from checks import TOLERANCES, flat, put_together, take_apart
from samples import ROWS, Make, Row, Sample

import lucid

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's own, about samples such as empty ones

# Names that mean something else in PyTorch, or conventions in which Lucid differs on purpose.
DIFFERENT = {
    "scatter": "with duplicates, only the write that lasts gets a gradient here",
}
NAMES = sorted(
    {row.name for row in ROWS if hasattr(lucid, row.name) and hasattr(torch, row.name) and row.name not in DIFFERENT}
)
BY_NAME = {row.name: row for row in ROWS}


def run(library: Any, row: Row, sample: Sample, make: Any) -> tuple[list[Any], list[Any]]:
    """The operands as tensors, and the results, of one library."""
    arrays: list[np.ndarray] = []
    nest = take_apart((sample.args, sample.kwargs), arrays) if not sample.kwargs else None
    args = nest[0] if nest else take_apart(sample.args, arrays)
    operands = [make(a) for a in arrays]
    result = getattr(library, row.name)(*put_together(args, operands), **sample.kwargs)
    return operands, [r for r in flat(result) if hasattr(r, "dtype") and hasattr(r, "shape")]


def lucid_operand(array: np.ndarray) -> Any:
    x = lucid.tensor(array)
    return x.requires_grad_() if array.dtype.kind in "fc" else x


def torch_operand(array: np.ndarray) -> Any:
    x = torch.from_numpy(np.array(array))
    return x.requires_grad_() if array.dtype.kind in "fc" else x


def resolved(tensor: Any) -> np.ndarray:
    plain = tensor.detach()
    return np.asarray(plain.resolve_conj() if hasattr(plain, "resolve_conj") else plain)


def gradients(outs: list[Any], operands: list[Any], seeds: list[Any], library: Any) -> list[Any]:
    live = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.requires_grad]
    wanted = [x for x in operands if x.requires_grad]
    if not live or not wanted:
        return []
    found = library.autograd.grad([o for o, _ in live], wanted, [s for _, s in live], allow_unused=True)
    return [None if g is None else resolved(g) for g in found]


def finite(sample: Sample) -> bool:
    arrays: list[np.ndarray] = []
    take_apart(sample.args, arrays)
    return all(np.isfinite(a).all() for a in arrays)


def compare(row: Row, sample: Sample, dtype: str) -> bool:
    """Compare one sample; False if PyTorch does not take it, or if it holds nan or inf, where conventions differ."""
    if not finite(sample):
        return False
    try:
        theirs_in, theirs = run(torch, row, sample, torch_operand)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False
    ours_in, ours = run(lucid, row, sample, lucid_operand)
    rtol, atol = TOLERANCES[dtype]
    assert len(ours) == len(theirs)
    rng = np.random.default_rng(0)
    ct_ours, ct_theirs = [], []
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        assert a.shape == tuple(b.shape)
        np.testing.assert_allclose(np.asarray(a.detach()), b.detach().resolve_conj().numpy(), rtol * 10, atol * 10)
        seed = np.asarray(rng.normal(size=a.shape)).astype(np.asarray(a.detach()).dtype)
        ct_ours.append(lucid.tensor(seed))
        ct_theirs.append(torch.from_numpy(seed))
    try:
        expected = gradients(theirs, theirs_in, ct_theirs, torch)
    except RuntimeError:
        return True  # no derivative there
    found = gradients(ours, ours_in, ct_ours, lucid)
    for g, e in zip(found, expected, strict=True):
        zero = np.zeros((), dtype)
        np.testing.assert_allclose(zero if g is None else g, zero if e is None else e, rtol * 100, atol * 100)
    return True


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_torch(name: str, dtype: str) -> None:
    row = BY_NAME[name]
    if dtype.startswith("complex") and not row.complex:
        pytest.skip("the row has no complex numbers")
    if not row.floats:
        pytest.skip("the row has no floats")
    with np.errstate(all="ignore"):
        compared = [compare(row, sample, dtype) for sample in row.samples(Make(dtype, row.domain))]
    if not any(compared):
        pytest.skip("PyTorch takes none of the samples")
