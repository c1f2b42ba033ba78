"""How often each primitive occurred: the rows that call it, as often as they did."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np
from checks import cases, spying

from fuzz.rows import BY_NAME
from lucid.core.primitive import registry


def primitives_of(names: Iterable[str]) -> dict[str, set[str]]:
    """The primitives that each row calls."""
    found = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in names:
            row = BY_NAME[name]
            waiting = {(n, "impl") for n in registry}
            with spying(registry, waiting):
                for dtype in ("float64",) * row.floats + ("complex128",) * row.complex + row.ints[:1]:
                    with suppress(Exception):  # they have tests of their own
                        for case in cases(row, dtype):
                            case.op(*case.operands())
            found[name] = {n for n in registry if (n, "impl") not in waiting}
    return found


def occurrences(rows: Mapping[str, int]) -> Counter[str]:
    counts = Counter(dict.fromkeys(registry, 0))
    for name, primitives in primitives_of(rows).items():
        for primitive in primitives:
            counts[primitive] += rows[name]
    return counts
