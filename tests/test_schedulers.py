"""Schedules for learning rates: their curves, their state, their combinations; averages of models."""

import copy
import math
import pickle

import numpy as np
import pytest

import lucid
from lucid.nn.layers.normalization import BatchNorm1d
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.optim import lr_scheduler as schedules
from lucid.optim import swa_utils


def optimizer_with(*rates, **options):
    groups = [{"params": [lucid.zeros(1).requires_grad_()], "lr": rate} for rate in rates or (1.0,)]
    return lucid.optim.SGD(groups, **options)


def curve(schedule, steps):
    """The rate of the first group at each epoch."""
    found = []
    for _ in range(steps):
        found.append(schedule.get_last_lr()[0])
        assert schedule.optimizer.param_groups[0]["lr"] == found[-1]
        schedule.step()
    return found


class Fading:
    """A function of the epoch with a state of its own."""

    def __init__(self, strength):
        self.strength = strength

    def __call__(self, epoch):
        return 1 / (1 + self.strength * epoch)


# How each schedule is made, and the rate that it gives at an epoch for an initial rate of 1.
SIMPLE = {
    "StepLR": (lambda o, **k: schedules.StepLR(o, 3, 0.5, **k), lambda t: 0.5 ** (t // 3)),
    "MultiStepLR": (
        lambda o, **k: schedules.MultiStepLR(o, [2, 5, 5, 9], 0.5, **k),
        lambda t: 0.5 ** sum(m <= t for m in (2, 5, 5, 9)),
    ),
    "ConstantLR": (lambda o, **k: schedules.ConstantLR(o, 0.25, 4, **k), lambda t: 0.25 if t < 4 else 1.0),
    "ConstantLR from 0": (lambda o, **k: schedules.ConstantLR(o, 0.0, 4, **k), lambda t: 0.0 if t < 4 else 1.0),
    "LinearLR": (lambda o, **k: schedules.LinearLR(o, 0.2, 0.8, 6, **k), lambda t: 0.2 + 0.1 * min(t, 6)),
    "LinearLR to 0": (lambda o, **k: schedules.LinearLR(o, 1.0, 0.0, 6, **k), lambda t: 1 - min(t, 6) / 6),
    "ExponentialLR": (lambda o, **k: schedules.ExponentialLR(o, 0.9, **k), lambda t: 0.9**t),
    "PolynomialLR": (lambda o, **k: schedules.PolynomialLR(o, 7, 2.0, **k), lambda t: (1 - min(t, 7) / 7) ** 2),
    "CosineAnnealingLR": (
        lambda o, **k: schedules.CosineAnnealingLR(o, 5, 0.1, **k),
        lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 5)) / 2,
    ),
    "LambdaLR": (lambda o, **k: schedules.LambdaLR(o, lambda t: 0.95**t, **k), lambda t: 0.95**t),
    "MultiplicativeLR": (lambda o, **k: schedules.MultiplicativeLR(o, lambda t: 0.95, **k), lambda t: 0.95**t),
    "CosineAnnealingWarmRestarts": (
        lambda o, **k: schedules.CosineAnnealingWarmRestarts(o, 4, eta_min=0.1, **k),
        lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * (t % 4) / 4)) / 2,
    ),
}
SWA = {
    "SWALR": (
        lambda o, **k: swa_utils.SWALR(o, 0.2, 4, "linear", **k),
        lambda t: 1 + (0.2 - 1) * min(t / 4, 1),
    ),
    "SWALR cos": (
        lambda o, **k: swa_utils.SWALR(o, 0.2, 4, **k),
        lambda t: 0.2 + 0.8 * (1 + math.cos(math.pi * min(t / 4, 1))) / 2,
    ),
}
CURVES = {**SIMPLE, **SWA}


@pytest.mark.parametrize("name", CURVES)
def test_curve(name):
    make, formula = CURVES[name]
    np.testing.assert_allclose(curve(make(optimizer_with(1.0)), 16), [formula(t) for t in range(16)], atol=1e-12)


@pytest.mark.parametrize("name", [n for n in CURVES if n != "MultiplicativeLR"])  # whose rates depend on the path
def test_a_jump_leads_to_the_same_rates(name):
    make, formula = CURVES[name]
    schedule = make(optimizer_with(1.0))
    for epoch in (7, 3, 12, 0):
        schedule.step(epoch)
        assert schedule.last_epoch == epoch
        assert schedule.get_last_lr()[0] == pytest.approx(formula(epoch), abs=1e-12)


@pytest.mark.parametrize("name", CURVES)
def test_groups_keep_their_proportions(name):
    make, _ = CURVES[name]
    optimizer = optimizer_with(1.0, 3.0)
    schedule = make(optimizer)
    floor = {"CosineAnnealingLR": 0.1, "CosineAnnealingWarmRestarts": 0.1, "SWALR": 0.2, "SWALR cos": 0.2}.get(
        name, 0.0
    )
    for t in range(8):
        first, second = schedule.get_last_lr()
        assert (second - floor) * (1.0 - floor) == pytest.approx((first - floor) * (3.0 - floor), abs=1e-12), t
        schedule.step()


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("saved_at", [0, 3, 6])
def test_saved_schedules_go_on(name, saved_at):
    make, formula = CURVES[name]
    optimizer = optimizer_with(1.0)
    schedule = make(optimizer)
    for _ in range(saved_at):
        schedule.step()
    state = pickle.loads(pickle.dumps(schedule.state_dict()))
    other = optimizer_with(1.0)
    resumed = make(other)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(state)
    np.testing.assert_allclose(curve(resumed, 8), [formula(t + saved_at) for t in range(8)], atol=1e-12)


@pytest.mark.parametrize("name", [n for n in CURVES if n != "MultiplicativeLR"])
def test_a_schedule_can_be_resumed_by_number(name):
    make, formula = CURVES[name]
    optimizer = optimizer_with(1.0)
    schedule = make(optimizer)
    for _ in range(5):
        schedule.step()
    resumed = make(optimizer, last_epoch=schedule.last_epoch - 1)
    np.testing.assert_allclose(curve(resumed, 6), [formula(t + 5) for t in range(6)], atol=1e-12)


def test_resuming_without_initial_rates_is_refused():
    with pytest.raises(KeyError, match="needs an entry 'initial_lr'"):
        schedules.StepLR(optimizer_with(1.0), 3, last_epoch=4)


def test_a_rate_changed_by_hand_stays_changed():
    optimizer = optimizer_with(1.0)
    schedule = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.param_groups[0]["lr"] = 8.0
    schedule.step()
    assert schedule.get_last_lr() == [4.0]


def test_rates_that_are_tensors_are_written_in_place():
    rate = lucid.tensor(1.0)
    optimizer = lucid.optim.SGD([lucid.zeros(1).requires_grad_()], lr=rate)
    schedule = schedules.ExponentialLR(optimizer, 0.5)
    schedule.step()
    assert rate.item() == 0.5
    assert optimizer.param_groups[0]["lr"] is rate
    assert schedule.base_lrs[0].item() == 1.0


def test_functions_with_state_are_saved():
    one, other = Fading(1.0), Fading(0.0)
    state = schedules.LambdaLR(optimizer_with(1.0), one).state_dict()
    assert state["lr_lambdas"] == [{"strength": 1.0}]
    resumed = schedules.LambdaLR(optimizer_with(1.0), other)
    resumed.load_state_dict(state)
    assert other.strength == 1.0
    assert resumed.lr_lambdas == [other]


# Cycles.


def test_warm_restarts_grow_longer_and_take_fractions():
    schedule = schedules.CosineAnnealingWarmRestarts(optimizer_with(1.0), 2, T_mult=2)
    starts = [t for t, rate in enumerate(curve(schedule, 15)) if rate == 1.0]
    assert starts == [0, 2, 6, 14]
    schedule.step(3.0)
    assert (schedule.T_cur, schedule.T_i, schedule.last_epoch) == (1.0, 4, 3)
    schedule.step(0.5)
    assert schedule.get_last_lr()[0] == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    with pytest.raises(ValueError, match="cannot be negative"):
        schedule.step(-1)


def test_cyclic_rates_and_momentum_go_against_each_other():
    optimizer = optimizer_with(5.0, momentum=0.5)
    schedule = schedules.CyclicLR(optimizer, 0.1, 0.5, step_size_up=4, step_size_down=2)
    rates, momenta = [], []
    for _ in range(7):
        rates.append(schedule.get_last_lr()[0])
        momenta.append(optimizer.param_groups[0]["momentum"])
        schedule.step()
    np.testing.assert_allclose(rates, [0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.1], atol=1e-12)
    np.testing.assert_allclose(momenta, [0.9, 0.875, 0.85, 0.825, 0.8, 0.85, 0.9], atol=1e-12)


@pytest.mark.parametrize(
    ("options", "peaks"),
    [
        ({"mode": "triangular"}, [1.0, 1.0, 1.0]),
        ({"mode": "triangular2"}, [1.0, 0.5, 0.25]),
        ({"mode": "exp_range", "gamma": 0.9}, [0.9**2, 0.9**6, 0.9**10]),
        ({"scale_fn": lambda x: 1 / x, "scale_mode": "cycle"}, [1.0, 1 / 2, 1 / 3]),
    ],
)
def test_heights_of_cycles(options, peaks):
    schedule = schedules.CyclicLR(optimizer_with(1.0), 0.0, 1.0, step_size_up=2, cycle_momentum=False, **options)
    np.testing.assert_allclose(curve(schedule, 12)[2::4], peaks, atol=1e-12)


def test_cycles_move_beta1_where_there_are_betas():
    optimizer = lucid.optim.Adam([lucid.zeros(1).requires_grad_()])
    schedule = schedules.OneCycleLR(optimizer, 1.0, total_steps=10)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)
    schedule.step()
    schedule.step()
    assert optimizer.param_groups[0]["betas"] == (pytest.approx(0.85), 0.999)


def test_cycling_momentum_needs_momentum():
    optimizer = lucid.optim.Adagrad([lucid.zeros(1).requires_grad_()])
    with pytest.raises(ValueError, match="Adagrad has no momentum and no betas to cycle"):
        schedules.OneCycleLR(optimizer, 1.0, total_steps=10)


@pytest.mark.parametrize("three_phase", [False, True])
@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_one_cycle_goes_up_and_far_down(three_phase, strategy):
    optimizer = optimizer_with(1.0, momentum=0.9)
    schedule = schedules.OneCycleLR(
        optimizer, 2.0, epochs=4, steps_per_epoch=10, pct_start=0.25, anneal_strategy=strategy, three_phase=three_phase
    )
    rates = curve(schedule, 40)
    assert rates[0] == pytest.approx(2.0 / 25)
    assert rates[9] == pytest.approx(2.0) == max(rates)
    assert rates[39] == pytest.approx(2.0 / 25 / 1e4)
    if three_phase:
        assert rates[18] == pytest.approx(2.0 / 25)
    middle = rates[9] + (rates[0] - rates[9]) / 2 if strategy == "linear" else None
    if middle is not None:
        assert (rates[4] + rates[5]) / 2 == pytest.approx(middle)
    with pytest.raises(ValueError, match="step 41 is beyond the 40 steps"):
        schedule.step()


# Compositions.


def test_sequence_follows_each_schedule_from_its_milestone():
    optimizer = optimizer_with(1.0)
    parts = [
        schedules.ConstantLR(optimizer, 0.1, 100),
        schedules.LinearLR(optimizer, 0.5, 1.0, 2),
        schedules.ExponentialLR(optimizer, 0.9),
    ]
    schedule = schedules.SequentialLR(optimizer, parts, [3, 6])
    expected = [0.1] * 3 + [0.5, 0.75, 1.0] + [1.0, 0.9, 0.81]
    np.testing.assert_allclose(curve(schedule, 9), expected, atol=1e-12)


def test_sequences_and_chains_nest():
    optimizer = optimizer_with(1.0)
    inner = schedules.SequentialLR(
        optimizer, [schedules.ConstantLR(optimizer, 0.5, 100), schedules.ExponentialLR(optimizer, 0.5)], [2]
    )
    chain = schedules.ChainedScheduler(
        [schedules.ExponentialLR(optimizer, 0.5), schedules.ConstantLR(optimizer, 0.1, 2)]
    )
    outer = schedules.SequentialLR(optimizer, [inner, chain], [4])
    expected = [0.5, 0.5, 1.0, 0.5, 0.1, 0.05, 0.25, 0.125]
    np.testing.assert_allclose(curve(outer, 8), expected, atol=1e-12)


def test_chain_multiplies():
    optimizer = optimizer_with(1.0)
    chain = schedules.ChainedScheduler(
        [schedules.ConstantLR(optimizer, 0.1, 2), schedules.ExponentialLR(optimizer, 0.9)], optimizer
    )
    np.testing.assert_allclose(curve(chain, 4), [0.1, 0.09, 0.81, 0.729], atol=1e-12)
    assert chain.last_epoch == 4


@pytest.mark.parametrize("saved_at", [1, 4])
def test_saved_compositions_go_on(saved_at):
    def make(optimizer):
        parts = [schedules.LinearLR(optimizer, 0.5, 1.0, 3), schedules.ExponentialLR(optimizer, 0.9)]
        return schedules.SequentialLR(optimizer, parts, [3])

    optimizer = optimizer_with(1.0)
    schedule = make(optimizer)
    for _ in range(saved_at):
        schedule.step()
    other = optimizer_with(1.0)
    resumed = make(other)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(copy.deepcopy(schedule.state_dict()))
    np.testing.assert_allclose(curve(resumed, 6), curve(schedule, 6), atol=1e-12)


def test_compositions_that_make_no_sense_are_refused():
    optimizer = optimizer_with(1.0)
    step, other = schedules.StepLR(optimizer, 3), schedules.StepLR(optimizer_with(1.0), 3)
    with pytest.raises(ValueError, match="2 schedules need 1 milestones, not 2"):
        schedules.SequentialLR(optimizer, [step, schedules.StepLR(optimizer, 2)], [1, 2])
    with pytest.raises(ValueError, match="must belong to one optimizer"):
        schedules.ChainedScheduler([step, other])
    with pytest.raises(ValueError, match="is a ReduceLROnPlateau"):
        schedules.ChainedScheduler([schedules.ReduceLROnPlateau(optimizer)])
    with pytest.raises(ValueError, match="at least one"):
        schedules.ChainedScheduler([])


# Plateaus.


@pytest.mark.parametrize(
    ("options", "metrics", "rates"),
    [
        ({"patience": 1}, [3, 2, 2, 2, 2, 2], [1, 1, 1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "cooldown": 2}, [1, 1, 1, 1, 1, 1], [1, 0.1, 0.1, 0.1, 0.01, 0.01]),
        ({"patience": 0, "mode": "max"}, [1, 2, 2, 3], [1, 1, 0.1, 0.1]),
        ({"patience": 0, "threshold": 0.5, "threshold_mode": "abs"}, [3.0, 2.7, 2.0], [1, 0.1, 0.1]),
        ({"patience": 0, "threshold": 0.5}, [4.0, 2.1, 1.9], [1, 0.1, 0.1]),
        ({"patience": 0, "min_lr": 0.05}, [1, 1, 1, 1], [1, 0.1, 0.05, 0.05]),
        ({"patience": 0}, [1, math.nan, 0.5], [1, 0.1, 0.1]),
    ],
)
def test_plateaus(options, metrics, rates):
    schedule = schedules.ReduceLROnPlateau(optimizer_with(1.0), **options)
    found = []
    for metric in metrics:
        schedule.step(lucid.tensor(float(metric)))
        found += schedule.get_last_lr()
    np.testing.assert_allclose(found, rates, rtol=1e-12)
    resumed = schedules.ReduceLROnPlateau(optimizer_with(1.0))
    resumed.load_state_dict(copy.deepcopy(schedule.state_dict()))
    assert (resumed.best, resumed.num_bad_epochs) == (schedule.best, schedule.num_bad_epochs)


def test_a_group_added_later_gets_the_common_limit():
    optimizer = optimizer_with(1.0)
    schedule = schedules.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.5)
    optimizer.add_param_group({"params": [lucid.zeros(1).requires_grad_()], "lr": 3.0})
    for _ in range(2):
        schedule.step(1.0)
    assert schedule.get_last_lr() == [0.5, 0.5]
    other = optimizer_with(1.0)
    listed = schedules.ReduceLROnPlateau(other, patience=0, min_lr=[0.5])
    other.add_param_group({"params": [lucid.zeros(1).requires_grad_()]})
    listed.step(1.0)
    with pytest.raises(RuntimeError, match="2 parameter groups now, but min_lrs has 1"):
        listed.step(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: schedules.StepLR(o, 0), "step_size must be a whole number of at least 1, not 0"),
        (lambda o: schedules.ConstantLR(o, 2.0), "factor must be between 0 and 1"),
        (lambda o: schedules.LinearLR(o, 0.0), "start_factor must be above 0"),
        (lambda o: schedules.LinearLR(o, end_factor=2.0), "end_factor must be between 0 and 1"),
        (lambda o: schedules.LambdaLR(o, [abs, abs]), "lr_lambda has 2 entries for 1 parameter groups"),
        (lambda o: schedules.CosineAnnealingWarmRestarts(o, 2.5), "T_0 must be a whole number"),
        (lambda o: schedules.CyclicLR(o, 0.0, 1.0, mode="square"), "mode must be one of"),
        (lambda o: schedules.OneCycleLR(o, 1.0), "needs total_steps, or both"),
        (lambda o: schedules.OneCycleLR(o, 1.0, total_steps=10, pct_start=1.5), "pct_start"),
        (lambda o: schedules.OneCycleLR(o, 1.0, total_steps=10, anneal_strategy="log"), "anneal_strategy"),
        (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), "factor must be less than 1"),
        (lambda o: schedules.ReduceLROnPlateau(o, mode="lowest"), "mode must be"),
        (lambda o: schedules.ReduceLROnPlateau(o, min_lr=[1.0, 2.0]), "min_lr has 2 entries"),
        (lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1), "anneal_epochs must be a whole number of at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(optimizer_with(1.0))


def test_a_schedule_needs_an_optimizer():
    with pytest.raises(TypeError, match="made for an Optimizer, not for a list"):
        schedules.StepLR([], 3)


# Averages of models.


class Scale(Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = Parameter(lucid.tensor([factor]))
        self.register_buffer("seen", lucid.tensor([0.0]))
        self.register_buffer("count", lucid.tensor(0))

    def forward(self, x):
        return x * self.factor


def fed(averaged, model, numbers):
    for k, number in enumerate(numbers):
        with lucid.no_grad():
            model.factor.fill_(number)
            model.seen.fill_(10 * number)
            model.count.fill_(k)
        averaged.update_parameters(model)
    return averaged


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3.0),
        ({"avg_fn": swa_utils.get_swa_avg_fn()}, 3.0),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, 3.0),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 2 + 0.5 * 6),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 2 + 0.5 * 6),
    ],
)
def test_averaged_models(options, expected):
    model = Scale(5.0)
    averaged = fed(swa_utils.AveragedModel(model, **options), model, [1.0, 2.0, 6.0])
    assert averaged(lucid.tensor([2.0])).item() == pytest.approx(2 * expected)
    assert averaged.module.seen.item() == 60.0
    assert averaged.n_averaged.item() == 3
    assert model.factor.item() == 6.0
    assert "module.factor" in averaged.state_dict()


def test_buffers_can_be_averaged_too():
    model = Scale(5.0)
    averaged = fed(swa_utils.AveragedModel(model, use_buffers=True), model, [1.0, 2.0, 6.0])
    assert averaged.module.seen.item() == pytest.approx(30.0)
    assert averaged.module.count.item() == 2


@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x, "label"), lambda x: [x]])
def test_statistics_of_batches_are_computed_anew(wrapped):
    batches = [lucid.randn(6, 3) * k + k for k in (1.0, 2.0, 4.0)]
    model = BatchNorm1d(3, momentum=0.3)
    for _ in range(5):
        model(lucid.randn(6, 3) + 100.0)
    model.eval()
    swa_utils.update_bn([wrapped(b) for b in batches], model)
    stacked = np.stack([b.numpy() for b in batches])
    np.testing.assert_allclose(model.running_mean.numpy(), stacked.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(model.running_var.numpy(), stacked.var(1, ddof=1).mean(0), rtol=1e-5)
    assert model.momentum == 0.3 and not model.training
    assert model.num_batches_tracked.item() == 3


def test_momenta_come_back_after_an_error():
    model = BatchNorm1d(3, momentum=0.3)
    with pytest.raises(ValueError, match="has 3 features"):
        swa_utils.update_bn([lucid.randn(4, 5)], model)
    assert model.momentum == 0.3


def test_averages_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="not both"):
        swa_utils.AveragedModel(
            Scale(1.0), avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn()
        )


def test_averaging_begins_when_the_schedule_has_come_down():
    optimizer = optimizer_with(1.0)
    main = schedules.ExponentialLR(optimizer, 0.5)
    late = swa_utils.SWALR(optimizer, 0.05, anneal_epochs=2, anneal_strategy="linear")
    main.step()
    for _ in range(3):
        late.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
