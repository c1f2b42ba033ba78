"""Tests that only some runs take: all of them by default, a share by turns where LUCID_TEST_SAMPLE has a number.

A test marked with `sampled(every=k)` then runs for one of k consecutive numbers, whichever it is; `make test` counts the
commits, so that what one run leaves out is taken by one of the next. Tests without the mark always run. Long tables ask
`has_turn` instead, before there are tests.
"""

import os
from zlib import crc32

VARIABLE = "LUCID_TEST_SAMPLE"


def chosen() -> int | None:
    """The number of this sample, None where every test runs."""
    given = os.environ.get(VARIABLE, "")
    if not given:
        return None
    if not given.isdecimal():
        raise ValueError(f"{VARIABLE} must be a number, or empty to run every test; got {given!r}")
    return int(given)


def is_taken(name: str, every: int, seed: int) -> bool:
    """Whether a test runs in the sample of this number: for each test, one of `every` consecutive numbers."""
    return (crc32(name.encode()) + seed) % every == 0


def has_turn(name: str, every: int) -> bool:
    """Whether this sample takes a case: for tables of so many cases that collecting all of them would take long."""
    seed = chosen()
    return seed is None or is_taken(name, every, seed)


def how_to_repeat(seed: int) -> str:
    return f"a sample of the tests: {VARIABLE}={seed} repeats it, and without the variable every test runs"
