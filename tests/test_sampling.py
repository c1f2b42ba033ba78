"""Samples of the tests: each test has its turn, what is always needed is always there, and the number is said."""

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from checks import planned
from sampling import VARIABLE, chosen, is_taken
from table import ROWS
from test_ops import EVERY

HERE = Path(__file__).parent
NAMES = [f"tests/test_ops.py::test_op[row{k}-second-float64]" for k in range(400)]


@pytest.mark.parametrize("every", [1, 2, 3, 4, 10])
def test_each_test_runs_in_one_of_so_many_consecutive_samples(every):
    for first in (0, 7, 2048):
        assert all(sum(is_taken(name, every, first + k) for k in range(every)) == 1 for name in NAMES)


@pytest.mark.parametrize("every", [2, 3, 4, 10])
def test_samples_are_about_as_large_as_one_another(every):
    for seed in range(every):
        assert 0.5 < sum(is_taken(name, every, seed) for name in NAMES) * every / len(NAMES) < 1.5


def test_the_variable(monkeypatch):
    for given, number in (("", None), ("0", 0), ("1234", 1234)):
        monkeypatch.setenv(VARIABLE, given)
        assert chosen() == number
    monkeypatch.setenv(VARIABLE, "today")
    with pytest.raises(ValueError, match="must be a number, or empty to run every test; got 'today'"):
        chosen()


def run(folder, variable):
    """A run of pytest under the settings of these tests, by a file of twenty tests, of which one fails."""
    (folder / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (folder / "test_twenty.py").write_text(
        "import pytest\n"
        "@pytest.mark.sampled(every=2)\n"
        "@pytest.mark.parametrize('k', range(19))\n"
        "def test_sampled(k): pass\n"
        "def test_always(): assert False\n"
    )
    environment = {**os.environ, VARIABLE: variable, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", str(folder)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_without_a_number_every_test_runs(tmp_path):
    said = run(tmp_path, "")
    assert "1 failed, 19 passed" in said
    assert VARIABLE not in said


def test_a_sample_leaves_out_marked_tests_only_and_says_how_to_repeat_it(tmp_path):
    counts = Counter()
    for seed in (40, 41):
        said = run(tmp_path, str(seed))
        words = said.splitlines()[-1].replace(",", "").split()
        counts.update({word: int(count) for count, word in pairwise(words) if count.isdecimal()})
        assert said.count(f"{VARIABLE}={seed} repeats it") == 2  # before the tests and after the failure
    assert counts["failed"] == 2
    assert counts["passed"] == counts["deselected"] == 19


def test_a_number_that_is_none_is_refused(tmp_path):
    assert "must be a number" in run(tmp_path, "today")


def test_values_and_first_derivatives_are_in_every_sample():
    checks = {name for row in ROWS for name, _, _ in planned(row)}
    assert EVERY.keys() <= checks
    assert {"values", "refused", "reverse", "forward", "pins", "undifferentiable"} == checks - EVERY.keys()
