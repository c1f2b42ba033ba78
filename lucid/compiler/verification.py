"""Comparing a compiled function with the function itself, from the same state."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.api.rng import Generator, default_generator
from lucid.compiler.places import Found, Walk, restore
from lucid.core import tree
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor

_STEPS = 1e3  # units in the last place by which results may differ: products may be summed in another order


class Snapshot:
    """All that a function can see, and how to bring it back."""

    def __init__(self, roots: Sequence[Found], arguments: Sequence[Tensor]) -> None:
        given = [Found(None, "argument", i, t) for i, t in enumerate(arguments)]
        self.walk = Walk([*roots, *given])
        self.tensors = [places[0] for places in self.walk.tensors.values()]
        self.values = [found.value._array.copy() for found in self.tensors]
        self.gradients = [found.value._grad for found in self.tensors]
        generators = [default_generator(), *[f.value for f in self.walk.same if isinstance(f.value, Generator)]]
        self.states = [(g, g.get_state()) for g in generators]

    def bring_back(self) -> None:
        """Make everything as it was."""
        restore(self.walk)
        for found, value, gradient in zip(self.tensors, self.values, self.gradients, strict=True):
            tensor = found.value
            if not np.array_equal(tensor._array, value, equal_nan=value.dtype.kind in "fc"):
                tensor._array[...] = value
                storage_of(tensor).bump("lucid.compile(verify=True)")
            tensor._grad = gradient
        for generator, state in self.states:
            generator.set_state(state)

    def named(self) -> dict[str, Any]:
        """The values by the places where they are."""
        found = {str(f): value for f, value in zip(self.tensors, self.values, strict=True)}
        found.update((f"the state of generator {i}", np.array(s)) for i, (_, s) in enumerate(self.states))
        return found


def verified(
    name: str,
    plain: Callable[[], Any],
    compiled: Callable[[], Any],
    roots: Sequence[Found],
    arguments: Sequence[Tensor],
) -> Any:
    """The result of the compiled call, after the plain one was run and undone; raises if they differ."""
    before = Snapshot(roots, arguments)
    expected = _flat(plain())
    after = Snapshot(roots, arguments).named()
    before.bring_back()
    result = compiled()
    found = _flat(result)
    now = Snapshot(roots, arguments).named()
    _compare(name, expected, found, "result ")
    _compare(name, after, now, "")
    return result


def _flat(result: Any) -> dict[str, Any]:
    leaves, _ = tree.flatten(result)
    return {str(i): leaf._array.copy() if isinstance(leaf, Tensor) else leaf for i, leaf in enumerate(leaves)}


def _compare(name: str, expected: dict[str, Any], found: dict[str, Any], what: str) -> None:
    missing = sorted(expected.keys() ^ found.keys())
    if missing:
        raise AssertionError(
            f"lucid.compile(verify=True): `{name}` and its program differ in whether there is {what}{missing[0]}"
        )
    for key, value in expected.items():
        if not _agree(value, found[key]):
            raise AssertionError(
                f"lucid.compile(verify=True): `{name}` and its program differ in {what}{key}: {value} and {found[key]}"
            )


def _agree(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return bool(a is b or a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    step = _STEPS * float(np.finfo(a.dtype).eps)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return bool(np.allclose(a, b, rtol=step, atol=step * scale, equal_nan=True))
