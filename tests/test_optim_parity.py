"""Optimizers, schedules and scaling against PyTorch, over all combinations of options."""

import copy
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_optim import EVERY_CASE, SHAPES  # noqa: E402

import lucid  # noqa: E402
import lucid.optim  # noqa: E402

THEIRS = [(name, options) for name, options in EVERY_CASE if name not in ("Lion", "Muon")]  # see below for Muon
STEPS = 25


def pair_of(values, dtype):
    ours = lucid.tensor(np.asarray(values), dtype=dtype).requires_grad_()
    theirs = torch.tensor(np.asarray(values), dtype=getattr(torch, dtype)).requires_grad_()
    return ours, theirs


def numbers(tensor):
    return np.array(tensor.detach().numpy())


def noise(rng, shape, dtype):
    drawn = rng.standard_normal(shape)
    return drawn + 1j * rng.standard_normal(shape) if "complex" in dtype else np.asarray(drawn)


def trained(name, options, dtype, shapes=SHAPES):
    """Both libraries after the same gradients, some of which are missing."""
    rng = np.random.default_rng(0)
    pairs = [pair_of(noise(rng, s, dtype), dtype) for s in shapes]
    ours = getattr(lucid.optim, name)([p for p, _ in pairs], **options)
    theirs = getattr(torch.optim, name)([q for _, q in pairs], **options)
    for k in range(STEPS):
        for i, (p, q) in enumerate(pairs):
            drawn = noise(rng, p.shape, dtype)
            if k % 5 == 3 and i == 1:
                p.grad = q.grad = None
            else:
                p.grad, q.grad = lucid.tensor(drawn, dtype=dtype), torch.tensor(drawn, dtype=q.dtype)
        ours.step()
        theirs.step()
    return pairs, ours, theirs


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize(("name", "options"), THEIRS, ids=str)
def test_same_parameters_and_state(name, options, dtype):
    if name == "Adafactor" and dtype == "complex128":
        with pytest.raises(ValueError, match="real parameters"):  # PyTorch refuses at the first step
            lucid.optim.Adafactor([pair_of(1j, dtype)[0]])
        return
    pairs, ours, theirs = trained(name, options, dtype)
    close = {"rtol": 3e-4, "atol": 3e-5} if dtype == "float32" else {"rtol": 1e-6, "atol": 1e-7}
    for p, q in pairs:
        np.testing.assert_allclose(numbers(p), numbers(q), **close)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine["state"]) == list(other["state"])
    for number, entry in other["state"].items():
        assert list(mine["state"][number]) == list(entry)
        for key, value in entry.items():
            assert mine["state"][number][key].dtype.name == str(value.dtype).removeprefix("torch.")
            np.testing.assert_allclose(numbers(mine["state"][number][key]), numbers(value), **close)
    for a, b in zip(mine["param_groups"], other["param_groups"], strict=True):
        assert a == b


def test_muon_differs_by_the_precision_of_its_iterations(monkeypatch):
    """PyTorch makes matrices orthogonal in bfloat16; in double precision it takes the same steps."""
    shapes = [(4, 3), (3, 5)]
    pairs, _, _ = trained("Muon", {"lr": 0.05}, "float64", shapes)
    off = max(np.abs(numbers(p) - numbers(q)).max() for p, q in pairs)
    assert 1e-5 < off < 0.05
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)
    for p, q in trained("Muon", {"lr": 0.05}, "float64", shapes)[0]:
        np.testing.assert_allclose(numbers(p), numbers(q), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted({name for name, _ in THEIRS} | {"LBFGS", "Muon"}))
def test_same_defaults(name):
    matrix = np.eye(2)
    ours = getattr(lucid.optim, name)([pair_of(matrix, "float32")[0]]).param_groups[0]
    theirs = getattr(torch.optim, name)([pair_of(matrix, "float32")[1]]).param_groups[0]
    extra = {"maximize"} if name == "Muon" else set()
    assert ours.keys() - extra == theirs.keys()
    for key in theirs.keys() - {"params"}:
        assert ours[key] == theirs[key], key


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_half_precision(name, dtype):
    options = {"lr": 0.01, "eps": 1e-3} if name != "SGD" else {"lr": 0.01}
    pairs, ours, _ = trained(name, options, dtype)
    for p, q in pairs:
        np.testing.assert_allclose(numbers(p.float()), numbers(q.float()), rtol=0.05, atol=0.05)
    assert all(e["exp_avg"].dtype.name == dtype for e in ours.state.values() if "exp_avg" in e)


@pytest.mark.parametrize("name", sorted({name for name, _ in THEIRS}))
def test_checkpoints_carry_over(name):
    pairs, _, theirs = trained(name, {}, "float64")
    saved = theirs.state_dict()
    state = {
        i: {k: lucid.tensor(numbers(v), dtype=str(v.dtype).removeprefix("torch.")) for k, v in entry.items()}
        for i, entry in saved["state"].items()
    }
    fresh = [pair_of(numbers(q), "float64")[0] for _, q in pairs]
    ours = getattr(lucid.optim, name)(fresh, lr=123.0)
    ours.load_state_dict({"state": state, "param_groups": copy.deepcopy(saved["param_groups"])})
    rng = np.random.default_rng(5)
    for _ in range(3):
        for p, (_, q) in zip(fresh, pairs, strict=True):
            drawn = np.asarray(rng.standard_normal(p.shape))
            p.grad, q.grad = lucid.tensor(drawn), torch.tensor(drawn)
        ours.step()
        theirs.step()
    for p, (_, q) in zip(fresh, pairs, strict=True):
        np.testing.assert_allclose(numbers(p), numbers(q), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "momentum": 0.8}, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0, "ns_steps": 3}],
    ids=str,
)
@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
def test_muon(shape, options):
    pairs, _, _ = trained("Muon", {"lr": 0.02, **options}, "float32", [shape])
    for p, q in pairs:  # PyTorch iterates in bfloat16
        np.testing.assert_allclose(numbers(p), numbers(q), atol=5e-3)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"history_size": 3, "max_iter": 7}, {"max_eval": 5}], ids=str)
def test_lbfgs(search, options):
    x, y = pair_of([-1.0, 2.0, 0.1, -0.3], "float64")
    lr = 0.05 if search is None else 1
    losses = []
    for p, module in ((x, lucid.optim), (y, torch.optim)):
        optimizer = module.LBFGS([p], lr=lr, line_search_fn=search, **options)
        seen = []

        def closure(p=p, optimizer=optimizer, seen=seen):
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2 + ((p[2:] - 0.5) ** 4).sum()
            loss.backward()
            seen.append(loss.detach().item())
            return loss

        for _ in range(5):
            optimizer.step(closure)
        losses.append(seen)
    assert len(losses[0]) == len(losses[1])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4, atol=1e-10)
    np.testing.assert_allclose(numbers(x), numbers(y), rtol=1e-6, atol=1e-6)


# Schedules.

MAKERS = {
    "StepLR": lambda m, o: m.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 9]),
    "ConstantLR": lambda m, o: m.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.2, 0.8, 6),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, 7, 2.0),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "LambdaLR": lambda m, o: m.LambdaLR(o, lambda t: 1 / (1 + t)),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda t: 1 - 1 / (2 + t)),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.01, 0.5, 4, 3),
    "CyclicLR triangular2": lambda m, o: m.CyclicLR(o, 0.01, 0.5, 4, mode="triangular2", cycle_momentum=False),
    "CyclicLR exp_range": lambda m, o: m.CyclicLR(o, 0.01, 0.5, 4, mode="exp_range", gamma=0.95),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, [0.5, 1.0], total_steps=20),
    "OneCycleLR linear": lambda m, o: m.OneCycleLR(o, 0.5, epochs=4, steps_per_epoch=5, anneal_strategy="linear"),
    "OneCycleLR three": lambda m, o: m.OneCycleLR(o, 0.5, total_steps=20, three_phase=True),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1, 1.0, 4), m.CosineAnnealingLR(o, 6), m.ExponentialLR(o, 0.9)], [4, 12]
    ),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler(
        [m.ConstantLR(o, 0.1, 3), m.ExponentialLR(o, 0.9), m.CosineAnnealingLR(o, 8)]
    ),
}


def optimizer_pair(kind):
    made = []
    for module, zero in ((lucid.optim, lucid.zeros(1)), (torch.optim, torch.zeros(1))):
        groups = [{"params": [zero.clone().requires_grad_()], "lr": lr} for lr in (0.1, 0.3)]
        extra = {"momentum": 0.9} if kind == "SGD" else {}
        made.append(getattr(module, kind)(groups, **extra))
    return made


@pytest.mark.filterwarnings("ignore")  # PyTorch wants its optimizer to step first
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", MAKERS)
def test_same_schedule(name, kind):
    ours, theirs = optimizer_pair(kind)
    mine, other = MAKERS[name](lucid.optim.lr_scheduler, ours), MAKERS[name](torch.optim.lr_scheduler, theirs)
    for _ in range(19):
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-9, atol=1e-15)
        for a, b in zip(ours.param_groups, theirs.param_groups, strict=True):
            assert a["lr"] == pytest.approx(b["lr"], rel=1e-9, abs=1e-15)
            key = "momentum" if kind == "SGD" else "betas"
            np.testing.assert_allclose(a[key], b[key], rtol=1e-9)
        mine.step()
        other.step()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["StepLR", "LinearLR", "CosineAnnealingLR", "ExponentialLR", "PolynomialLR"])
def test_same_schedule_when_rates_are_changed_by_hand(name):
    ours, theirs = optimizer_pair("SGD")
    mine, other = MAKERS[name](lucid.optim.lr_scheduler, ours), MAKERS[name](torch.optim.lr_scheduler, theirs)
    for k in range(8):
        if k == 3:
            for optimizer in (ours, theirs):
                optimizer.param_groups[0]["lr"] = 0.77
        mine.step()
        other.step()
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    "options",
    [
        dict(zip(("mode", "threshold_mode", "patience", "cooldown"), values, strict=True))
        for values in itertools.product(("min", "max"), ("rel", "abs"), (0, 2), (0, 1))
    ],
    ids=str,
)
def test_same_reaction_to_plateaus(options):
    ours, theirs = optimizer_pair("SGD")
    mine = lucid.optim.lr_scheduler.ReduceLROnPlateau(ours, threshold=0.1, min_lr=[1e-3, 1e-2], **options)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, threshold=0.1, min_lr=[1e-3, 1e-2], **options)
    for metric in np.random.default_rng(0).standard_normal(30).cumsum():
        mine.step(metric)
        other.step(metric)
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_same_swa_schedule(strategy, epochs):
    ours, theirs = optimizer_pair("SGD")
    rates = [0.05, 0.5]
    mine = lucid.optim.swa_utils.SWALR(ours, rates, epochs, strategy)
    other = torch.optim.swa_utils.SWALR(theirs, rates, epochs, strategy)
    for _ in range(7):
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-9)
        mine.step()
        other.step()


def test_same_scaling():
    from lucid.amp import GradScaler

    x, y = pair_of([1.0, 2.0], "float32")
    ours, theirs = lucid.optim.Adam([x], lr=0.1), torch.optim.Adam([y], lr=0.1)
    options = {"init_scale": 64.0, "growth_interval": 3}
    mine, other = GradScaler("cpu", **options), torch.amp.GradScaler("cpu", **options)
    for k in range(12):
        factor = float("inf") if k in (2, 7) else 1.0
        for p, optimizer, scaler in ((x, ours, mine), (y, theirs, other)):
            optimizer.zero_grad()
            scaler.scale((p**2).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        assert mine.get_scale() == other.get_scale()
        np.testing.assert_allclose(numbers(x), numbers(y), rtol=1e-5)
    assert mine.state_dict().keys() == other.state_dict().keys()
