"""JAX's public names: nearly all that programs use are there, and the others say why they are not."""

import importlib
from pathlib import Path

import pytest

import lucid.jax
from lucid.jax import absences

LISTS = dict(line.split(": ", 1) for line in (Path(__file__).parent / "jax_names.txt").read_text().splitlines())
# The namespaces of functions; `jax` itself and `jax.lax` also have what belongs to devices and to the machinery.
FUNCTIONS = ("jax.numpy", "jax.numpy.fft", "jax.numpy.linalg", "jax.nn", "jax.random")


def missing(path: str) -> list[str]:
    module = importlib.import_module(f"lucid.{path}")
    return [name for name in LISTS[path].split() if not hasattr(module, name)]


@pytest.mark.parametrize("path", LISTS)
def test_what_is_missing_has_a_reason(path: str) -> None:
    assert [name for name in missing(path) if absences.why(path, name) is None] == []


def test_nearly_all_functions_are_there() -> None:
    every = sum(len(LISTS[path].split()) for path in FUNCTIONS)
    assert every > 500 and 1 - sum(len(missing(path)) for path in FUNCTIONS) / every >= 0.94
    functions = [name for name in LISTS["jax.lax"].split() if not name.endswith("_p")]
    lacking = [name for name in missing("jax.lax") if not name.endswith("_p")]
    assert len(functions) > 200 and 1 - len(lacking) / len(functions) >= 0.75


def test_reasons_are_of_names_that_are_missing() -> None:
    """A reason must not outlive what it excuses."""
    for path, reasons in absences.REASONS.items():
        module = importlib.import_module(f"lucid.{path}")
        assert [n for names in reasons.values() for n in names.split() if hasattr(module, n)] == [], path


def test_the_reason_is_told() -> None:
    for path, name, reason in (("jax", "pmap", "one device"), ("jax.lax", "sin_p", "inner workings")):
        with pytest.raises(AttributeError, match=reason):
            getattr(importlib.import_module(f"lucid.{path}"), name)
    assert not hasattr(lucid.jax, "nonsense")
