"""PyTorch's public names, collected by tools/torch_names.py: nearly all are there, and the others say why not."""

from pathlib import Path

import pytest

import lucid.torch as torch
from lucid.torch import absences

LISTS = {
    path: names.split()
    for path, _, names in (
        line.partition(":") for line in (Path(__file__).parent / "torch_names.txt").read_text().splitlines()[1:]
    )
}


def found_at(path):
    value = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def missing(path):
    home = found_at(path)
    return [name for name in LISTS[path] if not hasattr(home, name)]


@pytest.mark.parametrize("path", LISTS)
def test_what_is_missing_has_a_reason(path):
    assert [name for name in missing(path) if name not in absences.WHY] == []


def test_nearly_all_names_are_there():
    every = sum(map(len, LISTS.values()))
    lacking = sum(len(missing(path)) for path in LISTS)
    assert every > 2000 and 1 - lacking / every >= 0.95


def test_reasons_are_of_names_that_are_missing():
    """A reason must not outlive what it excuses."""
    everywhere = {name for path in LISTS for name in missing(path)} | {
        name for name in absences.WHY if not hasattr(torch, name)
    }
    assert set(absences.WHY) - everywhere == set()


def test_the_reason_is_told():
    with pytest.raises(AttributeError, match="no quantized tensors"):
        torch.quantize_per_tensor  # noqa: B018  # asking is the test
    with pytest.raises(AttributeError, match="use a Dataset"):
        torch.utils.data.IterDataPipe  # noqa: B018
