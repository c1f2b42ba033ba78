"""lucid.compile: whole training steps, with every optimizer, against the same steps as they are."""

import copy

import numpy as np
import pytest

import lucid
from lucid import nn, optim

F = nn.functional
STEPS = 20


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)

    @staticmethod
    def batch():
        return lucid.randn(8, 6), lucid.randint(0, 4, (8,))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4 * 3 * 3, 4)

    def forward(self, x):
        return self.head(self.pool(F.relu(self.norm(self.conv(x)))).flatten(1))

    @staticmethod
    def batch():
        return lucid.randn(4, 2, 6, 6), lucid.randint(0, 4, (4,))


class Counting(CNN):
    """Running statistics are the mean of all batches so far."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4, momentum=None)


class Words(nn.Module):
    """Vectors of words whose norms are limited as they are used."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 5, padding_idx=2, max_norm=1.5), nn.Linear(5, 4)

    def forward(self, x):
        return self.head(self.words(x).sum(1))

    @staticmethod
    def batch():
        return lucid.randint(0, 9, (6, 3)), lucid.randint(0, 4, (6,))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(3, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])

    @staticmethod
    def batch():
        return lucid.randn(4, 5, 3), lucid.randint(0, 4, (4,))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.project(self.first(x)).reshape(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        y = self.tokens(x) + self.places(lucid.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y)
        return self.head(y).flatten(0, 1)

    @staticmethod
    def batch():
        x = lucid.randint(0, 11, (3, 6))
        return x, x.roll(1, 1).flatten()


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, maximize=False),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
    "lion": lambda p: optim.Lion(p, lr=0.001, weight_decay=0.1),
    "asgd": lambda p: optim.ASGD(p, lr=0.01),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "muon": lambda p: optim.Muon([t for t in p if t.ndim == 2], lr=0.01),
}


def steps(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def trained(kind, make, compiled, count=STEPS, wrap=steps, dtype=None):
    """The losses of some steps, and all that is there afterwards."""
    lucid.manual_seed(0)
    model = kind()
    if dtype is not None:
        model = model.to(dtype)
    optimizer = make(list(model.parameters()))
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    step = wrap(model, optimizer)
    if compiled:
        step = lucid.compile(step)
    losses = []
    for _ in range(count):
        x, y = kind.batch()
        losses.append(step(x if dtype is None or not x.is_floating_point() else x.to(dtype), y).detach())
        schedule.step()
    found = {f"loss {i}": loss for i, loss in enumerate(losses)}
    found.update((f"weight {k}", v) for k, v in model.state_dict().items())
    found.update((f"gradient {k}", p.grad) for k, p in model.named_parameters() if p.grad is not None)
    for number, entry in optimizer.state_dict()["state"].items():
        found.update((f"state {number} {k}", v) for k, v in entry.items())
    found["next draw"] = lucid.rand(3)
    return found, step


def agree(expected, found, exact):
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        a, b = (np.asarray(v.detach() if isinstance(v, lucid.Tensor) else v) for v in (value, found[key]))
        assert a.shape == b.shape, key
        assert a.dtype == b.dtype, key
        if exact:
            assert np.array_equal(a, b), key
        else:
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5), key


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name):
    expected, _ = trained(MLP, OPTIMIZERS[name], False)
    found, step = trained(MLP, OPTIMIZERS[name], True)
    agree(expected, found, exact=name != "muon")  # which multiplies matrices
    assert len(step._history) <= 2, step.explain()


@pytest.mark.parametrize("kind", [CNN, Counting, Words, Recurrent, GPT])
def test_every_kind_of_model(kind):
    expected, _ = trained(kind, OPTIMIZERS["adamw"], False)
    found, step = trained(kind, OPTIMIZERS["adamw"], True)
    agree(expected, found, exact=True)
    assert len(step._history) <= 2, step.explain()


@pytest.mark.parametrize("dtype", [lucid.float64, lucid.bfloat16], ids=str)
def test_other_types(dtype):
    expected, _ = trained(MLP, OPTIMIZERS["adam"], False, 5, dtype=dtype)
    found, _ = trained(MLP, OPTIMIZERS["adam"], True, 5, dtype=dtype)
    if dtype is lucid.float64:
        agree(expected, found, exact=True)
    else:  # sums of products that are rounded to eight bits
        for key in (k for k in expected if k.startswith(("loss", "weight"))):
            a, b = (np.asarray(v[key].detach(), np.float32) for v in (expected, found))
            assert np.allclose(a, b, rtol=2e-2, atol=2e-2), key


def variants(model, optimizer):
    """Ways to write a step, by name."""
    params = list(model.parameters())

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    def zeros(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    def afterwards(x, y):
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        for p in params:
            p.grad = None
        return loss

    def accumulated(x, y):
        loss = loss_of(x, y)
        (loss / 2).backward()
        return loss

    def twice(x, y):
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
        return loss

    def clipped(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        nn.utils.clip_grad_value_(params, 0.01)
        optimizer.step()
        return loss

    def checked(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(params, 10.0, error_if_nonfinite=True)
        optimizer.step()
        return loss + norm * 0

    def averaged(x, y):
        loss = zeros(x, y)
        for average in averages:
            average.update_parameters(model)
        return loss + sum(p.detach().sum() for average in averages for p in average.parameters()) * 0

    def by_hand(x, y):
        loss = loss_of(x, y)
        gradients = lucid.autograd.grad(loss, params)
        with lucid.no_grad():
            for p, g in zip(params, gradients, strict=True):
                p -= 0.1 * g
        return loss

    def assigned(x, y):
        loss = loss_of(x, y)
        for p, g in zip(params, lucid.autograd.grad(loss, params), strict=True):
            p.grad = g * 2
        optimizer.step()
        return loss

    def closure(x, y):
        def evaluate():
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            return loss

        return optimizer.step(evaluate)

    def smoothed(x, y):
        loss = zeros(x, y)
        with lucid.no_grad():
            for name, p in model.named_parameters():
                shadow[name].lerp_(p, 0.1)
        return loss + sum(s.sum() for s in shadow.values()) * 0

    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    moving = optim.swa_utils.get_ema_multi_avg_fn(0.9)
    averages = [optim.swa_utils.AveragedModel(model, multi_avg_fn=f) for f in (None, moving)]
    return {f.__name__: f for f in (
        zeros, afterwards, accumulated, twice, clipped, checked, averaged, by_hand, assigned, closure, smoothed,
    )}  # fmt: skip


NAMES = "zeros afterwards accumulated twice clipped checked averaged by_hand assigned closure smoothed".split()


@pytest.mark.parametrize("name", NAMES)
def test_ways_to_write_a_step(name):
    def wrap(model, optimizer):
        return variants(model, optimizer)[name]

    make = OPTIMIZERS["adam"]
    expected, _ = trained(MLP, make, False, 6, wrap)
    found, step = trained(MLP, make, True, 6, wrap)
    agree(expected, found, exact=True)
    assert len(step._history) <= 3, step.explain()


def test_clipping_by_norm():
    def wrap(model, optimizer):
        params = list(model.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(params, 0.1)
            optimizer.step()
            return loss + norm * 0

        return step

    agree(trained(MLP, OPTIMIZERS["sgd"], False, 5, wrap)[0], trained(MLP, OPTIMIZERS["sgd"], True, 5, wrap)[0], False)


def test_gradients_that_are_not_finite_stop_a_step_before_it_writes_anything():
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    @lucid.compile
    def step(x):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()

    step(lucid.ones(4, 3))
    before = [
        t.clone() for t in (layer.weight.detach(), layer.weight.grad, optimizer.state[layer.weight]["momentum_buffer"])
    ]
    with pytest.raises(RuntimeError, match="norm of order 2"):
        step(lucid.full((4, 3), float("inf")))
    after = layer.weight.detach(), layer.weight.grad, optimizer.state[layer.weight]["momentum_buffer"]
    assert all(lucid.equal(a, b) for a, b in zip(before, after, strict=True))


def test_gradients_that_somebody_holds_are_added_to_in_place():
    w = lucid.ones(2, requires_grad=True)

    @lucid.compile
    def f(x):
        (w * x).sum().backward()

    f(lucid.ones(2))
    held = w.grad
    f(lucid.ones(2))
    assert held.tolist() == [2, 2]
    assert w.grad is held
    w.grad = None
    f(lucid.ones(2))
    assert w.grad.tolist() == [1, 1]
    assert held.tolist() == [2, 2]


def test_the_gradient_of_an_argument():
    @lucid.compile
    def f(x):
        (x * x).sum().backward()
        return x.grad * 2

    for n in (1.0, 3.0):
        x = lucid.tensor([n], requires_grad=True)
        assert f(x).item() == 4 * n
        assert x.grad.item() == 2 * n


def test_a_scaler_leaves_steps_out():
    def run(compiled):
        lucid.manual_seed(0)
        w = lucid.ones(3, requires_grad=True)
        optimizer = optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5)
        scaler = lucid.amp.GradScaler(init_scale=8.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            loss = (w * x).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_value_([w], 0.5)
            scaler.step(optimizer)
            scaler.update()
            return loss

        if compiled:
            step = lucid.compile(step)
        found = []
        for value in (float("inf"), 1.0, 2.0, float("nan"), 3.0, 1.0, 1.0):
            step(lucid.tensor([value, 1.0, 2.0]))
            state = optimizer.state.get(w, {}).get("momentum_buffer")
            found.append((w.tolist(), scaler.get_scale(), None if state is None else state.tolist()))
        return found

    assert run(True) == run(False)


def test_lbfgs_is_refused_with_its_reason():
    w = lucid.ones(2, requires_grad=True)
    optimizer = optim.LBFGS([w])

    @lucid.compile
    def step(x):
        return optimizer.step(lambda: (w * x).sum())

    with pytest.raises(NotImplementedError, match="depends on values of the loss"):
        step(lucid.ones(2))


def test_hooks_on_tensors_and_optimizers():
    w = lucid.ones(2, requires_grad=True)
    w.register_hook(lambda g: g * 10)
    optimizer = optim.SGD([w], lr=1.0)

    def double(optimizer, args, kwargs):
        w.grad.mul_(2)

    optimizer.register_step_pre_hook(double)

    @lucid.compile
    def step(x):
        optimizer.zero_grad()
        y = w * x
        y.register_hook(lambda g: g + 1)
        y.sum().backward()
        optimizer.step()

    step(lucid.ones(2))
    assert w.grad.tolist() == [40, 40]
    assert w.tolist() == [-39, -39]


def test_compiled_gradients_and_an_optimizer_outside():
    expected, _ = trained(MLP, OPTIMIZERS["adam"], False, 5)

    def wrap(model, optimizer):
        forward = lucid.compile(lambda x, y: F.cross_entropy(model(x), y))
        step_now = lucid.compile(lambda: optimizer.step())

        def step(x, y):
            optimizer.zero_grad()
            loss = forward(x, y)
            loss.backward()
            step_now()
            return loss

        return step

    agree(expected, trained(MLP, OPTIMIZERS["adam"], False, 5, wrap)[0], exact=True)


def test_eager_and_compiled_steps_alternate():
    lucid.manual_seed(0)
    found = []
    for mixed in (False, True):
        lucid.manual_seed(1)
        model = MLP()
        optimizer = optim.AdamW(model.parameters())
        plain = steps(model, optimizer)
        compiled = lucid.compile(plain)
        for i in range(8):
            (compiled if mixed and i % 3 else plain)(*MLP.batch())
        found.append({**model.state_dict(), **{f"m{i}": e["exp_avg"] for i, e in enumerate(optimizer.state.values())}})
    agree(*found, exact=True)


def test_a_loaded_state_and_unfrozen_parameters():
    model = MLP()
    optimizer = optim.Adam(model.parameters())
    step = lucid.compile(steps(model, optimizer))
    x, y = MLP.batch()
    step(x, y)
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    state = optimizer.state_dict()
    state = copy.deepcopy(state)
    lucid.manual_seed(5)
    step(x, y)
    first = [p.tolist() for p in model.parameters()]
    model.load_state_dict(saved)
    optimizer.load_state_dict(state)
    lucid.manual_seed(5)
    step(x, y)
    assert first == [p.tolist() for p in model.parameters()]
    model.layers[0].requires_grad_(False)
    before = model.layers[0].weight.tolist()
    step(x, y)
    assert model.layers[0].weight.tolist() == before


SCHEDULES = {
    "StepLR": lambda o: optim.lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: optim.lr_scheduler.MultiStepLR(o, [2, 5]),
    "ConstantLR": lambda o: optim.lr_scheduler.ConstantLR(o),
    "LinearLR": lambda o: optim.lr_scheduler.LinearLR(o, 0.3, 1.0, 5),
    "ExponentialLR": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda o: optim.lr_scheduler.PolynomialLR(o, 10),
    "LambdaLR": lambda o: optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: optim.lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.95),
    "CosineAnnealingLR": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda o: optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "OneCycleLR": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=30),
    "ReduceLROnPlateau": lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "SWALR": lambda o: optim.swa_utils.SWALR(o, 0.05, anneal_epochs=4),
    "SequentialLR": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o), optim.lr_scheduler.ExponentialLR(o, 0.8)], [3]
    ),
    "ChainedScheduler": lambda o: optim.lr_scheduler.ChainedScheduler(
        [optim.lr_scheduler.ConstantLR(o), optim.lr_scheduler.ExponentialLR(o, 0.8)]
    ),
    "own": lambda o: Halving(o),
}


class Halving(optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [rate / 2**self.last_epoch for rate in self.base_lrs]


class Trainer:
    def __init__(self, schedule):
        lucid.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.schedule = schedule(self.optimizer)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = (self.model(x) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def step_with_schedule(self, x):
        loss = self.step(x)
        is_plateau = isinstance(self.schedule, optim.lr_scheduler.ReduceLROnPlateau)
        self.schedule.step(*[loss] * is_plateau)
        return loss

    def rate(self):
        return self.optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_around_and_inside_of_a_step(name):
    batches = [lucid.randn(4, 3) for _ in range(10)]
    found = {}
    for way in ("eager", "around", "inside"):
        trainer = Trainer(SCHEDULES[name])
        step = trainer.step_with_schedule if way != "around" else trainer.step
        step = step if way == "eager" else lucid.compile(step)
        for x in batches:
            loss = step(x)
            if way == "around":
                trainer.schedule.step(*[loss] * (name == "ReduceLROnPlateau"))
        assert way == "eager" or len(step._history) <= 3, step.explain()
        found[way] = trainer.rate(), trainer.schedule.last_epoch, trainer.model.weight.detach().numpy()
    for way in ("around", "inside"):
        assert found[way][:2] == found["eager"][:2]
        assert np.allclose(found[way][2], found["eager"][2], rtol=1e-4, atol=1e-6)


def test_schedules_are_not_looked_at_before_their_step():
    trainer = Trainer(SCHEDULES["ExponentialLR"])

    def too_early(x):
        trainer.schedule.step()
        return trainer.step(x)

    def rate_after(x):
        return trainer.step_with_schedule(x), trainer.rate()

    def epoch(x):
        return trainer.step_with_schedule(x) * trainer.schedule.last_epoch

    for step in (too_early, rate_after, epoch):
        with pytest.raises(NotImplementedError, match=r"at the end\s+of each run.*outside of the compiled function"):
            lucid.compile(step)(lucid.ones(2, 3))
    assert trainer.schedule.last_epoch == 0
    assert trainer.rate() == 0.1


def test_options_that_a_function_reads_are_guards_and_others_are_not():
    w = lucid.zeros(1, requires_grad=True)
    optimizer = optim.Adam([w], lr=0.5)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    scaler = lucid.amp.GradScaler(init_scale=4.0)
    group = optimizer.param_groups[0]
    ones = lucid.ones(1)
    rate = lucid.compile(lambda x: x * optimizer.param_groups[0]["lr"])
    beta = lucid.compile(lambda x: x * dict(optimizer.param_groups[0].items())["betas"][0])
    last = lucid.compile(lambda x: x * schedule.get_last_lr()[0])
    scale = lucid.compile(lambda x: x * scaler.get_scale())
    assert [f(ones).item() for f in (rate, last, scale)] == [0.5, 0.5, 4.0]
    assert beta(ones).item() == np.float32(0.9)
    schedule.step()
    scaler.load_state_dict({**scaler.state_dict(), "scale": 8.0})
    group["betas"] = (0.25, 0.5)
    assert [f(ones).item() for f in (rate, beta, last, scale)] == [0.25, 0.25, 0.25, 8.0]
    assert [len(f._history) for f in (rate, last, scale)] == [2, 1, 1]
    assert "param_groups[0]['lr'] was 0.5, now 0.25" in rate.explain()
    assert type(group) is type(optim.SGD([w], lr=0.1).param_groups[0])


def test_a_step_with_a_schedule_is_verified():
    trainer = Trainer(SCHEDULES["StepLR"])
    step = lucid.compile(trainer.step_with_schedule, verify=True)
    for _ in range(4):
        step(lucid.randn(4, 3))
    assert trainer.schedule.last_epoch == 4
