"""Modules compared with PyTorch: the same program, written once, gives the same answers in both."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lucid  # noqa: E402  # after the check for PyTorch
from lucid.func.modules import functional_call, stack_module_state  # noqa: E402
from lucid.nn import containers, init, utils  # noqa: E402
from lucid.nn.module import Module  # noqa: E402
from lucid.nn.parameter import Buffer, Parameter  # noqa: E402

OURS = SimpleNamespace(
    lib=lucid,
    utils=utils,
    init=init,
    functional_call=functional_call,
    stack_module_state=stack_module_state,
    Module=Module,
    Parameter=Parameter,
    Buffer=Buffer,
    **{name: getattr(containers, name) for name in containers.__all__},
)
THEIRS = SimpleNamespace(
    lib=torch,
    utils=torch.nn.utils,
    init=torch.nn.init,
    functional_call=torch.func.functional_call,
    stack_module_state=torch.func.stack_module_state,
    Module=torch.nn.Module,
    Parameter=torch.nn.Parameter,
    Buffer=torch.nn.Buffer,
    **{name: getattr(torch.nn, name) for name in containers.__all__},
)


def tensor(nn, *shape, seed=0):
    return nn.lib.tensor(np.random.default_rng(seed).normal(size=shape).tolist(), dtype=nn.lib.float64)


def linear(nn, inputs, outputs, seed=0):
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(tensor(nn, outputs, inputs, seed=seed))
            self.bias = nn.Parameter(tensor(nn, outputs, seed=seed + 1))
            self.register_buffer("kept", tensor(nn, 2))
            self.register_buffer("dropped", tensor(nn, 2), persistent=False)

        def forward(self, x):
            return x @ self.weight.T + self.bias

        def extra_repr(self):
            return f"{inputs}, {outputs}"

    return Linear()


def plain(value):
    """Tensors as nested lists of rounded numbers, inside any nest."""
    if isinstance(value, lucid.Tensor | torch.Tensor):
        return np.round(np.asarray(value.detach().numpy(), float), 8).tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value


def error_of(call):
    try:
        call()
    except Exception as error:
        return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    return None


def program_registration(nn):
    net = nn.Sequential(linear(nn, 2, 3), nn.ModuleList([linear(nn, 3, 3), linear(nn, 3, 1)]))
    net.tied = net[0]
    net[0].more = nn.Buffer(tensor(nn, 1))
    net[1][0].weight = None
    yield [n for n, _ in net.named_parameters()]
    yield [n for n, _ in net.named_parameters(remove_duplicate=False)]
    yield [n for n, _ in net.named_buffers()]
    yield [n for n, _ in net.named_modules()]
    yield [n for n, _ in net.named_modules(remove_duplicate=False)]
    yield [n for n, _ in net.named_children()]
    yield plain(net.state_dict())
    yield repr(net)
    net[0].bias = nn.Parameter(tensor(nn, 3))
    net[0].kept = nn.Parameter(tensor(nn, 3))
    del net[0].weight
    yield [n for n, _ in net.named_parameters()]
    yield [
        error_of(f)
        for f in (
            lambda: setattr(net[0], "bias", tensor(nn, 3)),
            lambda: setattr(net[0], "dropped", 3),
            lambda: net.register_parameter("a.b", None),
            lambda: net.register_buffer("", None),
            lambda: net.register_buffer("forward", tensor(nn, 1)),
            lambda: net.add_module("x", 3),
            lambda: net.get_submodule("0.nothing"),
            lambda: net.get_parameter("0.kept2"),
            lambda: net[7],
            lambda: net.nothing,
        )
    ]


def program_containers(nn):
    a, b, c = (linear(nn, 1, 1, seed=i) for i in range(3))

    def which(modules):
        return ["abc"[[a, b, c].index(m)] for m in modules]

    for held in (nn.Sequential(a, b), nn.ModuleList([a, b])):
        held.append(c)
        held.insert(1, c)
        yield which(held)
        yield which(held[1:]), which(held[::-1])
        held.pop(0)
        del held[-1]
        held.extend([a, b])
        yield which(held), list(held.state_dict())
        del held[1:3]
        held += type(held)(a) if isinstance(held, nn.Sequential) else [a]
        yield which(held), len(held), which(held + held)
    yield which(nn.Sequential(a, b) * 2)
    d = nn.ModuleDict({"x": a, "y": b})
    d.update({"z": c, "x": b})
    d.pop("y")
    yield list(d.keys()), which(d.values()), "x" in d, len(d)
    p = nn.ParameterList([tensor(nn, 2), nn.Parameter(tensor(nn, 3))])
    p += [tensor(nn, 1)]
    yield plain(p.state_dict()), len(p)
    q = nn.ParameterDict({"u": tensor(nn, 2)}) | {"v": tensor(nn, 1)}
    yield plain(q.state_dict()), list(q.keys())


def program_hooks(nn):
    log = []
    net = nn.Sequential(linear(nn, 2, 3), linear(nn, 3, 1))
    for i, layer in enumerate(net):
        layer.register_forward_pre_hook(lambda m, args, i=i: log.append((f"pre {i}", plain(args))))
        layer.register_forward_hook(lambda m, args, out, i=i: log.append((f"post {i}", plain(args), plain(out))))
        layer.register_full_backward_pre_hook(lambda m, gout, i=i: log.append((f"bpre {i}", plain(gout))))
        layer.register_full_backward_hook(lambda m, gin, gout, i=i: log.append((f"b {i}", plain(gin), plain(gout))))
    net[0].register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True, prepend=True)
    net[1].register_full_backward_hook(lambda m, gin, gout: (gin[0] * 3,))
    net[1].register_full_backward_pre_hook(lambda m, gout: (gout[0] * 5,), prepend=True)
    x = tensor(nn, 4, 2)
    x.requires_grad_()
    net(x).sum().backward()
    yield log
    yield plain(x.grad), [plain(p.grad) for p in net.parameters()]


def program_state(nn):
    net = nn.Sequential(linear(nn, 2, 3), linear(nn, 3, 1))
    keys = net.load_state_dict({"0.weight": tensor(nn, 3, 2, seed=5), "x": tensor(nn, 1)}, strict=False)
    yield list(keys.missing_keys), list(keys.unexpected_keys), plain(net.state_dict())
    yield error_of(lambda: net.load_state_dict({}))
    yield error_of(lambda: net.load_state_dict({"0.weight": tensor(nn, 1)}, strict=False))
    other = nn.Sequential(linear(nn, 2, 3, 7), linear(nn, 3, 1, 8))
    other.load_state_dict(net.state_dict())
    yield plain(other.state_dict()), repr(other.load_state_dict(net.state_dict()))
    net.load_state_dict({k: v.float() for k, v in other.state_dict().items()}, assign=True)
    yield [str(p.dtype).split(".")[1] for p in net.parameters()], [p.requires_grad for p in net.parameters()]


def program_parametrizations(nn):
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    net = linear(nn, 3, 3)
    nn.utils.parametrize.register_parametrization(net, "weight", Symmetric())
    yield plain(net.weight), [n for n, _ in net.named_parameters()]
    net.weight = tensor(nn, 3, 3, seed=4)
    yield plain(net.weight), plain(net.parametrizations.weight.original)
    yield plain(net.state_dict())
    yield type(net).__name__
    nn.utils.parametrize.remove_parametrizations(net, "weight")
    yield plain(net.state_dict()), [n for n, _ in net.named_parameters()]
    for dim in (0, 1):
        net = linear(nn, 3, 2)
        nn.utils.parametrizations.weight_norm(net, dim=dim)
        net(tensor(nn, 4, 3)).pow(2).sum().backward()
        yield plain(net.state_dict()), {n: plain(p.grad) for n, p in net.named_parameters()}
    net = linear(nn, 3, 2)
    nn.utils.parametrizations.spectral_norm(net, n_power_iterations=100)
    (net(tensor(nn, 4, 3)) ** 2).sum().backward()
    yield sorted(net.state_dict()), {n: plain(p.grad) for n, p in net.named_parameters()}, plain(net.weight)


def program_clipping(nn):
    for order in (1.0, 2.0, 3.0, float("inf")):
        parameters = [nn.Parameter(tensor(nn, 3)), nn.Parameter(tensor(nn, 2, 2))]
        for p in parameters:
            p.grad = p.detach() * 10
        yield plain(nn.utils.clip_grad_norm_(parameters, 1.5, order)), [plain(p.grad) for p in parameters]
        nn.utils.clip_grad_value_(parameters, 0.1)
        yield [plain(p.grad) for p in parameters]
    yield plain(nn.utils.parameters_to_vector(parameters))


def program_init(nn):
    names = ["linear", "conv1d", "conv_transpose2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"]
    yield [round(nn.init.calculate_gain(n), 12) for n in names]
    yield plain(nn.init.dirac_(nn.lib.empty(4, 2, 3, 4), 2)), plain(nn.init.eye_(nn.lib.empty(2, 3)))
    yield [error_of(lambda f=f: f(nn.lib.ones(2))) for f in (nn.init.eye_, nn.init.dirac_, nn.init.xavier_normal_)]


def program_functional(nn):
    net = linear(nn, 2, 2)
    state = {"weight": tensor(nn, 2, 2, seed=9)}
    x = tensor(nn, 3, 2)
    yield plain(nn.functional_call(net, state, (x,)))
    yield error_of(lambda: nn.functional_call(net, state, (x,), strict=True))
    parameters, buffers = nn.stack_module_state([linear_of(nn, i) for i in range(3)])
    yield plain(parameters), plain(buffers), [p.requires_grad for p in parameters.values()]


def linear_of(nn, seed):
    class Scale(nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.weight = nn.Parameter(tensor(nn, 2, seed=seed))
            self.register_buffer("shift", tensor(nn, 1, seed=seed))

    linear_of.classes.setdefault(id(nn), Scale)
    return linear_of.classes[id(nn)](seed)


linear_of.classes = {}

PROGRAMS = {name.removeprefix("program_"): f for name, f in list(globals().items()) if name.startswith("program_")}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_the_same_program_gives_the_same_answers(name):
    ours, theirs = list(PROGRAMS[name](OURS)), list(PROGRAMS[name](THEIRS))
    assert len(ours) == len(theirs) > 0
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert plain(a) == plain(b), f"answer {i}"
