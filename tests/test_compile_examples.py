"""Twenty training steps of each example, compiled, give what they give eagerly."""

import numpy as np
import pytest

import lucid
from lucid import nn

STEPS = 20


def rows(count, *, of=64):
    """Batches of a table, one for each step, as numbers of rows."""
    order = np.random.default_rng(0)
    return [lucid.tensor(order.permutation(of)[:count]) for _ in range(STEPS)]


def trained(parameters, make, loss, schedule=None):
    """A step of training that returns the loss, and what it changes."""
    optimizer = make(parameters)
    falling = schedule(optimizer) if schedule else None

    def step(*batch):
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return step, parameters, falling


def adam(parameters):
    return lucid.optim.Adam(parameters, lr=3e-3)


def falling(optimizer):
    return lucid.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=STEPS)


def digits(load, kind):
    example = load("digits")
    images, answers = example.tensors(example.load(0)[0])
    model, criterion = getattr(example, kind)(), nn.CrossEntropyLoss(label_smoothing=0.05)
    made = trained(
        list(model.parameters()),
        lambda ps: lucid.optim.AdamW(ps, lr=4e-3, weight_decay=0.01),
        lambda x, y: criterion(model(x), y),
        falling,
    )
    return *made, [(images[chosen], answers[chosen]) for chosen in rows(16)]


def chargpt(load):
    example = load("chargpt")
    size = example.Size(context=16, width=24, layers=2, batch=4)
    model, rng = example.GPT(30, size), np.random.default_rng(0)
    optimizer = lucid.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    text = rng.integers(0, 30, 500)

    def step(inputs, targets):
        optimizer.zero_grad()
        loss = example.loss_of(model, inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    batches = [example.batch_of(text, size, rng) for _ in range(STEPS)]
    # Scores do not depend on what is added to all keys: what an optimizer makes of the rounding is left to chance.
    state = [p for name, p in model.named_parameters() if "in_proj_bias" not in name]
    return step, state, falling(optimizer), batches


def vae(load):
    example = load("vae")
    images, _, _ = example.load(0)
    model = example.Autoencoder(32)

    def loss(batch):
        likelihood, divergence = model.bound(batch)
        return divergence - likelihood

    return *trained(list(model.parameters()), adam, loss, falling), [(images[chosen],) for chosen in rows(16)]


def gcn(load):
    example = load("gcn")
    graph = example.load(0, 200)
    model = example.GraphNetwork(8)

    def loss():
        scores = model(graph.images, graph.adjacency)
        return nn.functional.cross_entropy(scores[graph.labelled], graph.digits[graph.labelled])

    return *trained(list(model.parameters()), adam, loss), [()] * STEPS


def maml(load):
    example = load("maml")
    learner, rng = example.Learner(), np.random.default_rng(0)
    objective = learner.loss_after(1)

    def loss(*task):
        return objective(dict(learner.network.named_parameters()), example.Task(*task))

    return *trained(list(learner.network.parameters()), adam, loss), [example.tasks(5, rng) for _ in range(STEPS)]


def pinn(load):
    oscillator = load("pinn").Oscillator(8)
    times = [(lucid.linspace(0, 6 - k / 10, 12, dtype=lucid.float64),) for k in range(STEPS)]

    def loss(t):
        return oscillator.loss(dict(oscillator.network.named_parameters()), t)

    return *trained(list(oscillator.network.parameters()), adam, loss), times


def dp_sgd(load):
    example = load("dp_sgd")
    images, answers = lucid.rand(64, 8, 8), lucid.randint(0, 10, (64,))
    training = example.PrivateTraining(images, answers)
    parameters = {name: p.detach() for name, p in training.network.named_parameters()}

    def step(chosen):
        gradient = training.private_gradient(parameters, chosen, 1.0)
        for name, p in parameters.items():
            p.sub_(example.RATE * gradient[name])

    return step, list(parameters.values()), None, [(chosen,) for chosen in rows(8)]


def bayes(load):
    example = load("bayes")
    x = lucid.linspace(0, 3, 20)
    force = lucid.func.vmap(lucid.func.grad(example.posterior(x, x.sin())))
    place = lucid.tensor([[1.0, 2.5, 0.0, -1.5]]).repeat(3, 1)

    def step():
        proposed, moving = example.leapfrog(force, place, lucid.randn(place.shape), 0.01, 4)
        place.copy_(lucid.where(lucid.rand(len(place)).unsqueeze(1) < 0.8, proposed, place))
        return moving

    return step, [place], None, [()] * STEPS


def rosenbrock(load):
    example = load("rosenbrock")
    x = lucid.zeros(10, dtype=lucid.float64)

    def step():
        gradient, value = lucid.func.grad_and_value(example.rosenbrock)(x)
        curvature = lucid.func.hessian(example.rosenbrock)(x)
        x.sub_(lucid.linalg.solve(curvature, gradient))
        return value

    return step, [x], None, [()] * STEPS


def demo(load):
    example = load("demo")
    rng = np.random.default_rng(0)
    layers = example.new_layers([2, 8, 8, 1], rng)
    points = [example.two_moons(40, rng) for _ in range(STEPS)]

    def step(x, target):
        loss = example.loss_of(layers, x, target)
        loss.backward()
        example.descend(layers, rate=0.5)
        return loss.detach()

    return step, [p for layer in layers for p in layer], None, points


CASES = {
    "digits, fully connected": lambda load: digits(load, "fully_connected"),
    "digits, convolutional": lambda load: digits(load, "convolutional"),
    **{f.__name__: f for f in (chargpt, vae, gcn, maml, pinn, dp_sgd, bayes, rosenbrock, demo)},
}


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps(load, name):
    pytest.importorskip("sklearn")
    found = []
    for compiled in (False, True):
        lucid.manual_seed(0)
        step, state, schedule, batches = CASES[name](load)
        run = lucid.compile(step) if compiled else step
        values = []
        for batch in batches:
            value = run(*batch)
            values.append(0.0 if value is None else value.numpy().copy())
            if schedule is not None:
                schedule.step()
        found.append([np.stack(values), *[p.detach().numpy().copy() for p in state], lucid.rand(3).numpy()])
        if compiled:
            assert "ran as they are" not in run.explain()
    eager, again = found
    for a, b in zip(eager, again, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5)
        assert np.isfinite(a).all()


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse"])
def test_sparse_tensors_are_arguments_and_found_in_closures(layout):
    rng = np.random.default_rng(0)
    dense = rng.random((5, 5)) * (rng.random((5, 5)) < 0.4)
    first, second = (getattr(lucid.tensor(factor * dense), layout)() for factor in (1.0, 2.0))
    other = getattr(lucid.tensor(dense.T.copy()), layout)()
    x = lucid.tensor(rng.random((5, 2)))
    given = lucid.compile(lambda matrix, x: lucid.func.grad(lambda x: (matrix @ x).square().sum())(x))
    seen = lucid.compile(lambda x: lucid.func.grad(lambda x: (first @ x).square().sum())(x))
    for matrix in (first, second, other, first):
        a = matrix.to_dense().numpy()
        np.testing.assert_allclose(given(matrix, x).numpy(), 2 * a.T @ a @ x.numpy(), rtol=1e-12)
    assert given.explain().startswith("<lambda>: 2 programs")  # entries that stand elsewhere make another one
    np.testing.assert_allclose(seen(x).numpy(), given(first, x).numpy(), rtol=1e-12)
