"""scikit-learn on tensors: estimators that compute on them, and others that take them for arrays."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy_cases
import sklearn_cases
from sklearn import datasets, ensemble, metrics, neighbors, svm

import lucid

pytest.importorskip("sklearn", "1.9")


@pytest.fixture(scope="module")
def reports():
    return scipy_cases.reports_of(sklearn_cases.__file__)


@pytest.mark.parametrize("name", list(sklearn_cases.CASES))
def test_computes_on_tensors(name, reports):
    assert reports[name] == "ok"


@pytest.mark.parametrize(
    "make",
    [neighbors.KNeighborsClassifier, svm.SVC, lambda: ensemble.RandomForestClassifier(10, random_state=0)],
    ids=["neighbors", "svm", "forest"],
)
def test_other_estimators_take_tensors_for_arrays(make):
    x, y = datasets.load_iris(return_X_y=True)
    found = make().fit(lucid.tensor(x), lucid.tensor(y)).predict(lucid.tensor(x))
    np.testing.assert_array_equal(found, make().fit(x, y).predict(x))


def test_predictions_of_a_network_are_scored():
    logits = lucid.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]], requires_grad=True)
    truth = lucid.tensor([0, 1, 1])
    assert metrics.accuracy_score(truth, logits.argmax(1)) == pytest.approx(2 / 3)
    assert metrics.log_loss(truth, lucid.softmax(logits.detach().double(), 1)) == pytest.approx(
        lucid.nn.functional.cross_entropy(logits, truth).item(), rel=1e-6
    )


def test_examples_of_the_document_run():
    """Those that need SciPy's switch; tests/test_docs.py runs the others."""
    text = (Path(__file__).parent.parent / "docs" / "interop.md").read_text("utf-8")
    blocks = re.findall(r"```python\n# with SCIPY_ARRAY_API=1\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    code = (
        "import doctest, sys, warnings\n"
        f"test = doctest.DocTestParser().get_doctest({''.join(blocks)!r}, {{}}, 'interop.md', None, 0)\n"
        "sys.exit(doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed)\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
