"""How often each primitive occurred: the rows that reach it, as often as they did."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
from checks import Case, cases, is_float, spying
from samples import Row

from fuzz.rows import BY_NAME, LEFT_OUT
from lucid import func
from lucid.core.primitive import registry


def primitives_of(names: Iterable[str]) -> dict[str, set[str]]:
    """The primitives that each row, or its gradient, reaches: those that run, and those in programs of it.

    Some run by short ways of their own, which only programs show; some cannot be traced.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {name: reached(BY_NAME[name]) for name in names}


def reached(row: Row) -> set[str]:
    waiting = {(n, "kernel") for n in registry}
    found = {row.name.removesuffix("_")}
    with spying(registry, waiting):
        for dtype in ("float64",) * row.floats + ("complex128",) * row.complex + row.ints[:1]:
            for case in cases(row, dtype):
                with suppress(Exception):  # they have tests of their own
                    case.op(*case.operands())
                with suppress(Exception):
                    found.update(written_down(case))
    return {n for n in registry if n in found or (n, "kernel") not in waiting}


def written_down(case: Case) -> Iterator[str]:
    """The instructions of an operation and of its gradient."""
    operands = case.operands(requires_grad=False)
    yield from instructions(lambda *values: tuple(case.op(*values)), operands)

    def of_floats(*floats: object) -> tuple[object, ...]:
        values: list[object] = list(operands)
        for k, x in zip(case.floats, floats, strict=True):
            values[k] = x
        return tuple(o for o in case.op(*values) if is_float(o))

    primals = [operands[k] for k in case.floats]
    outs, _ = func.vjp(of_floats, *primals)
    yield from instructions(lambda *floats: func.vjp(of_floats, *floats)[1](outs), primals)


def instructions(function: object, operands: list[object]) -> Iterator[str]:
    for instruction in func.make_graph(function)(*operands).instructions:
        yield instruction.primitive.name


def occurrences(rows: Mapping[str, int]) -> Counter[str]:
    """Counts of all primitives but those that statements of other kinds reach."""
    counts = Counter(dict.fromkeys(registry.keys() - LEFT_OUT.keys(), 0))
    for name, primitives in primitives_of(rows).items():
        for primitive in primitives - LEFT_OUT.keys():
            counts[primitive] += rows[name]
    return counts
