"""The examples at a small size: what they promise comes true, and their pictures show something."""

import math
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp


@pytest.fixture
def example(load, tmp_path):
    """Runs an example by name, and checks its picture."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    image = import_module("matplotlib.image")

    def run(name):
        result = load(name).main(["--quick", "--output", str(tmp_path)])
        pixels = image.imread(tmp_path / f"{name}.png")
        assert pixels.shape[0] > 300 and pixels.shape[1] > 600
        drawn = (pixels[..., :3].min(2) < 0.9).mean()
        assert 0.005 < drawn < 0.95, f"{drawn:.1%} of the picture is drawn"
        return result

    return run


def test_every_example_is_in_the_table():
    root = Path(__file__).resolve().parent.parent
    programs = [p.name for p in (root / "examples").glob("*.py") if '__name__ == "__main__"' in p.read_text()]
    table = (root / "docs/index.md").read_text()
    assert len(programs) > 10 and not [name for name in programs if f"examples/{name}" not in table]


def test_digits(example):
    trainings = example("digits")
    assert set(trainings) == {"fully connected", "convolutional"}
    for done in trainings.values():
        assert done.accuracy > 0.93
        assert done.losses[-1] < done.losses[0] / 3


def test_vae(example):
    done = example("vae")
    assert done.tested[-1] > done.tested[0] + 20
    assert done.learned[-1] > done.learned[0] + 20


def test_gcn(example):
    done = example("gcn")
    assert done.accuracies[-1] > 0.85
    assert np.mean(done.accuracies) > np.mean(done.alone) + 0.05
    assert done.losses[-1] < done.losses[0] / 5


def test_bayes(example):
    found = example("bayes")
    flat = found.draws.reshape(-1, 4)
    assert 0.5 < found.accepted < 1
    assert (np.abs(flat.mean(0) - [1.0, 2.5, 0.4, math.log(0.15)]) < 4 * flat.std(0)).all()
    assert (found.convergence() < 1.3).all()


def test_chains_have_the_distribution_they_are_to_draw_from(load):
    """Of a normal distribution with correlations, by its mean and covariance."""
    bayes = load("bayes")
    lucid = import_module("lucid")
    lucid.manual_seed(0)
    covariance = np.array([[1.0, 0.6], [0.6, 0.8]], np.float32)
    precision = lucid.tensor(np.linalg.inv(covariance))
    density = lambda p: -0.5 * (p - 1) @ precision @ (p - 1)
    draws = bayes.sample(density, lucid.zeros(16, 2), 60, 150, leaps=8).draws.reshape(-1, 2)
    np.testing.assert_allclose(draws.mean(0), 1, atol=0.15)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.2)


def test_chargpt(example, capsys):
    result = example("chargpt")
    *_, last = result.tested.values()
    assert result.tested[0] > result.single_entropy > last + 0.3
    assert np.mean(result.losses[-10:]) < np.mean(result.losses[:10]) - 0.8
    printed = capsys.readouterr().out
    for sample in result.samples:
        assert sample in printed
        assert len(set(sample)) > 5


def test_pinn(example):
    result = example("pinn")
    assert result.losses[-1] < 1e-3 * result.losses[0]
    assert result.largest_error < 1e-2


def test_pinn_knows_the_exact_solution(load):
    pinn = load("pinn")
    t = np.linspace(0, pinn.DURATION, 50)
    rule = [[0, 1], [-(pinn.FREQUENCY**2), -2 * pinn.DAMPING]]
    solution = solve_ivp(lambda _, u: rule @ u, (0, pinn.DURATION), [1, 0], t_eval=t, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(pinn.exact(t), solution.y[0], atol=1e-7)


def test_maml(example):
    losses = example("maml").losses
    learned, baseline = losses["learned to learn"], losses["trained on all tasks"]
    assert learned[1] < 0.7 * learned[0]
    assert learned[1] < 0.7 * baseline[1]


def test_dp_sgd(example):
    free, some, much = example("dp_sgd")
    assert free.noise == 0 and math.isinf(free.epsilon)
    assert free.accuracy > 0.8 and some.accuracy > 0.7
    assert 0.1 < much.accuracy < some.accuracy
    assert 0 < much.epsilon < some.epsilon < 5


def test_distributed_gpt(load):
    """With one process; tests/distributed has it on several."""
    done = load("distributed_gpt").main(["--quick"])
    assert np.mean(done.losses[-10:]) < 0.7 * done.losses[0]


def test_account_of_privacy(load):
    """With every image in every step it is the plain Gaussian mechanism: order / 2 noise² for each step."""
    dp_sgd = load("dp_sgd")
    orders = np.arange(2, 128)
    expected = (10 * orders / (2 * 4.0**2) - math.log(dp_sgd.DELTA) / (orders - 1)).min()
    assert dp_sgd.epsilon(4.0, 1 - 1e-12, 10) == pytest.approx(expected, rel=1e-6)


def test_rosenbrock(example):
    rows = example("rosenbrock")
    assert {r.dimensions for r in rows} == {2, 20, 1000}
    for row in rows:
        assert row.error < 1e-2, row.method
    best = {r.dimensions: r for r in rows if r.method == "sparse Newton"}
    assert all(r.error < 1e-6 for r in best.values())
    values = next(r for r in rows if r.method == "Nelder-Mead")
    assert best[2].evaluations < values.evaluations


def test_demo(load, capsys):
    pytest.importorskip("sklearn")
    assert load("demo").main() == 0
    assert "of 359 others 9" in capsys.readouterr().out


def test_missing_package_is_named(load):
    extras = load("extras")
    with pytest.raises(ModuleNotFoundError, match=r'needs no_such_package: pip install "lucid\[examples\]"'):
        extras.imported("no_such_package.part")


def test_demo_without_data(load, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "sklearn.datasets", raising=False)
    demo = load("demo")
    assert demo.show_digits()
    assert 'left out: this example needs sklearn: pip install "lucid[examples]"' in capsys.readouterr().out


@pytest.mark.parametrize("steps", [1, 3, 5, 7, 100, 1234])
def test_progress_ends_full(load, capsys, steps):
    progress = load("progress")
    for step in range(1, steps + 1):
        progress.progress(step, steps, "loss 1")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == min(steps, 5)
    assert lines[-1] == f"[{'#' * progress.WIDTH}] {steps}/{steps}, loss 1"
