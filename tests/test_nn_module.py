"""Modules: registration, traversal, hooks, state, copying, containers and summaries."""

import copy
import gc
import pickle
import threading
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.func import grad, jvp, vmap
from lucid.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from lucid.nn.module import Module
from lucid.nn.parameter import Buffer, Parameter
from lucid.nn.summary import summary


class Linear(Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = Parameter(lucid.randn(outputs, inputs))
        self.register_parameter("bias", Parameter(lucid.randn(outputs)) if bias else None)

    def forward(self, x):
        out = x @ self.weight.T
        return out if self.bias is None else out + self.bias

    def extra_repr(self):
        return f"{self.inputs}, {self.outputs}"


class Counter(Module):
    """Has buffers of both sorts and counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", lucid.tensor(0))
        self.register_buffer("scratch", lucid.zeros(2), persistent=False)

    def forward(self, x):
        self.calls += 1
        return x


class Net(Module):
    def __init__(self):
        super().__init__()
        self.first = Linear(3, 4)
        self.count = Counter()
        self.second = Linear(4, 2, bias=False)

    def forward(self, x):
        return self.second(self.count(self.first(x)).tanh())


def names(pairs):
    return [name for name, _ in pairs]


# Parameters.


def test_a_parameter_is_a_plain_tensor_that_isinstance_recognises():
    p = Parameter(lucid.ones(2))
    assert type(p) is lucid.Tensor
    assert isinstance(p, Parameter) and isinstance(p, lucid.Tensor) and not isinstance(p, Buffer)
    assert p.requires_grad and p.is_leaf
    assert not isinstance(lucid.ones(2), Parameter)
    assert not isinstance(p * 1, Parameter)
    assert not isinstance(3, Parameter)


def test_a_parameter_shares_memory_and_is_a_new_leaf():
    data = lucid.zeros(2)
    p = Parameter(data)
    assert p is not data
    data[0] = 5.0
    assert p.tolist() == [5.0, 0.0]
    q = Parameter(p * 2)
    assert q.is_leaf and q.grad_fn is None


def test_writes_to_the_data_of_a_saved_parameter_are_noticed():
    data = lucid.ones(2)
    p = Parameter(data)
    y = (p * p).sum()
    data.add_(1.0)
    with pytest.raises(RuntimeError, match="add_"):
        y.backward()


@pytest.mark.parametrize("data", [None, [1.0, 2.0], np.ones(3)])
def test_what_parameters_can_be_made_of(data):
    p = Parameter(data)
    assert isinstance(p, Parameter)
    assert p.shape == (0 if data is None else len(data),)


def test_integer_parameters_need_requires_grad_false():
    with pytest.raises(RuntimeError, match="floating-point"):
        Parameter(lucid.tensor([1, 2]))
    assert not Parameter(lucid.tensor([1, 2]), requires_grad=False).requires_grad


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_of_parameters_are_parameters(duplicate):
    p = Parameter(lucid.tensor([1.0, 2.0]), requires_grad=False)
    p.grad = lucid.ones(2)
    q = duplicate(p)
    assert isinstance(q, Parameter) and not q.requires_grad and q.grad is None
    assert q is not p and q.tolist() == [1.0, 2.0]
    b = duplicate(Buffer(lucid.ones(2), persistent=False))
    assert isinstance(b, Buffer)
    holder = Module()
    holder.b = b
    assert not holder.state_dict()


def test_copies_of_plain_tensors_stay_plain():
    t = lucid.tensor([1.0], requires_grad=True)
    t.grad = lucid.ones(1)
    for u in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert not isinstance(u, Parameter)
        assert u.requires_grad and u.grad.tolist() == [1.0]


def test_the_mark_dies_with_the_tensor():
    from lucid.nn import parameter

    gc.collect()
    before = len(parameter._marks)
    held = [Parameter(lucid.zeros(1)) for _ in range(10)]
    assert len(parameter._marks) == before + 10
    del held
    gc.collect()
    assert len(parameter._marks) == before


def test_subclasses_of_parameter_are_told_apart():
    class Special(Parameter):
        __slots__ = ()

    s, p = Special(lucid.zeros(1)), Parameter(lucid.zeros(1))
    assert isinstance(s, Special) and isinstance(s, Parameter) and not isinstance(p, Special)


# Attributes and registration.


def test_assignment_registers_in_order():
    net = Net()
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]
    assert names(net.named_buffers()) == ["count.calls", "count.scratch"]
    assert names(net.named_children()) == ["first", "count", "second"]
    assert names(net.named_modules()) == ["", "first", "count", "second"]
    assert [type(m) for m in net.modules()] == [Net, Linear, Counter, Linear]
    assert names(net.named_parameters(prefix="net", recurse=False)) == []
    assert names(net.first.named_parameters(prefix="net")) == ["net.weight", "net.bias"]


def test_buffers_by_assignment():
    m = Module()
    m.kept = Buffer(lucid.zeros(1))
    m.dropped = Buffer(lucid.zeros(1), persistent=False)
    assert names(m.named_buffers()) == ["kept", "dropped"]
    assert list(m.state_dict()) == ["kept"]
    m.dropped = lucid.ones(1)
    assert m.get_buffer("dropped").tolist() == [1.0]
    assert list(m.state_dict()) == ["kept"]


def test_shared_parameters_and_modules_come_once():
    net = Net()
    net.tied = net.first
    net.second.weight2 = net.second.weight
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]
    every = names(net.named_parameters(remove_duplicate=False))
    assert "tied.weight" in every and "second.weight2" in every
    assert names(net.named_modules()) == ["", "first", "count", "second"]
    assert "tied" in names(net.named_modules(remove_duplicate=False))
    assert names(net.named_children()) == ["first", "count", "second"]


def test_registered_names_keep_their_kind():
    net = Net()
    with pytest.raises(TypeError, match=r"weight is registered as a parameter; .*Parameter or None, not to a Tensor"):
        net.first.weight = lucid.zeros(4, 3)
    with pytest.raises(TypeError, match="registered as a module"):
        net.first = 3
    with pytest.raises(TypeError, match="registered as a buffer"):
        net.count.calls = 3
    with pytest.raises(TypeError, match="registered as a parameter"):
        net.first.weight = Linear(1, 1)
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]
    net.first.bias = None
    assert names(net.named_parameters()) == ["first.weight", "second.weight"]
    net.first.bias = Parameter(lucid.zeros(4))
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]


def test_a_name_can_change_from_buffer_or_module_to_parameter():
    m = Module()
    m.register_buffer("x", lucid.zeros(1))
    m.y = Module()
    m.z = 3
    for name in "xyz":
        setattr(m, name, Parameter(lucid.zeros(1)))
    assert names(m.named_parameters()) == ["x", "y", "z"]
    assert not names(m.named_buffers()) and not names(m.named_children())


def test_deleting_unregisters():
    net = Net()
    del net.first.bias
    del net.count
    assert not hasattr(net.first, "bias") and not hasattr(net, "count")
    assert names(net.named_parameters()) == ["first.weight", "second.weight"]
    with pytest.raises(AttributeError):
        del net.nothing


@pytest.mark.parametrize(
    ("register", "error", "message"),
    [
        (lambda m: m.register_parameter("", None), KeyError, "empty"),
        (lambda m: m.register_parameter("a.b", None), KeyError, "dot"),
        (lambda m: m.register_parameter(3, None), TypeError, "string"),
        (lambda m: m.register_parameter("forward", Parameter(lucid.zeros(1))), KeyError, "every module has"),
        (lambda m: m.register_parameter("w", lucid.zeros(1)), TypeError, "must be a Parameter"),
        (lambda m: m.register_parameter("plain", Parameter(lucid.zeros(1))), KeyError, "already has"),
        (lambda m: m.register_buffer("w", 3), TypeError, "must be a Tensor"),
        (lambda m: m.register_module("w", 3), TypeError, "must be a Module"),
        (lambda m: setattr(m, "train", Module()), KeyError, "every module has"),
    ],
)
def test_bad_registrations_change_nothing(register, error, message):
    m = Module()
    m.plain = 1
    before = dict(vars(m))
    with pytest.raises(error, match=message):
        register(m)
    assert vars(m) == before


def test_registration_needs_init():
    class Early(Module):
        def __init__(self):
            self.note = "plain values are fine"
            self.weight = Parameter(lucid.zeros(1))

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Early()


def test_properties_of_the_class_come_first():
    class Half(Module):
        @property
        def width(self):
            return self._width

        @width.setter
        def width(self, value):
            self._width = value

    m = Half()
    m.width = Parameter(lucid.zeros(1))
    assert names(m.named_parameters()) == ["_width"]


def test_dictionaries_of_what_is_registered():
    net = Net()
    assert list(net._modules) == ["first", "count", "second"]
    net._modules["first"] = Linear(3, 4, bias=False)
    net._modules["third"] = Linear(2, 2)
    assert len(net._modules) == 4 and net.third.inputs == 2
    net.first._parameters["weight"] = Parameter(lucid.zeros(4, 3))
    assert net.first.weight.sum().item() == 0
    del net._modules["third"]
    assert not hasattr(net, "third")
    with pytest.raises(KeyError):
        net._parameters["first"]
    assert dict(net.count._buffers).keys() == {"calls", "scratch"}


def test_paths():
    net = Sequential(Net(), Linear(2, 2))
    assert net.get_submodule("") is net
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.count.calls") is net[0].count.calls
    for get, path in [(net.get_submodule, "0.nothing"), (net.get_parameter, "0.first"), (net.get_buffer, "1.weight")]:
        with pytest.raises(AttributeError, match=path.rpartition(".")[2]):
            get(path)
    new = Linear(3, 4)
    net.set_submodule("0.first", new)
    assert net[0].first is new
    for path, strict in [("0.nothing", True), ("1.weight", False), ("nowhere.first", False)]:
        with pytest.raises(AttributeError):
            net.set_submodule(path, new, strict)
    net.set_submodule("0.nothing", new)
    assert net[0].nothing is new


def test_missing_attributes_and_forward():
    with pytest.raises(AttributeError, match="nothing"):
        _ = Net().nothing
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        Module()(1)


def test_dir_lists_what_is_registered():
    assert {"first", "count", "training", "forward"} <= set(dir(Net()))


def test_repr():
    assert repr(Linear(2, 3)) == "Linear(2, 3)"
    assert repr(Net()) == "Net(\n  (first): Linear(3, 4)\n  (count): Counter()\n  (second): Linear(4, 2)\n)"
    assert repr(Sequential(Sequential(Linear(1, 1)))) == (
        "Sequential(\n  (0): Sequential(\n    (0): Linear(1, 1)\n  )\n)"
    )


# Calls.


@pytest.mark.parametrize("hooked", [False, True])
def test_calls_pass_all_arguments(hooked):
    class Echo(Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    echo = Echo()
    if hooked:
        echo.register_forward_pre_hook(lambda module, args: None)
    assert echo() == ((), {})
    assert echo(1) == ((1,), {})
    assert echo(None) == ((None,), {})
    assert echo(1, 2, a=3) == ((1, 2), {"a": 3})
    assert echo(first=1) == ((), {"first": 1})


def test_forward_of_an_instance_can_be_replaced():
    m = Linear(2, 2)
    m.forward = lambda x: x + 1
    assert m(1) == 2


def test_modes():
    net = Net()
    assert net.training and net.eval() is net
    assert not any(m.training for m in net.modules())
    net.first.train()
    assert net.first.training and not net.training
    with pytest.raises(ValueError, match="True or False"):
        net.train("yes")


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Counter", "Linear", "Net"]


def test_gradients_of_modules():
    net = Net()
    net(lucid.randn(5, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    held = net.first.weight.grad
    net.zero_grad(set_to_none=False)
    assert net.first.weight.grad is held and held.abs().sum().item() == 0
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(lucid.randn(5, 3)).requires_grad


# Conversion.


@pytest.mark.parametrize("name", ["double", "half", "bfloat16", "float"])
def test_conversion_keeps_the_objects(name):
    dtype = {"double": lucid.float64, "half": lucid.float16, "bfloat16": lucid.bfloat16, "float": lucid.float32}[name]
    for convert in (lambda m: getattr(m, name)(), lambda m: m.to(dtype), lambda m: m.to(lucid.zeros(1, dtype=dtype))):
        net = Net()
        net.first.weight.grad = lucid.ones(4, 3)
        held = list(net.parameters())
        assert convert(net) is net
        assert all(a is b and isinstance(a, Parameter) for a, b in zip(held, net.parameters(), strict=True))
        assert all(p.dtype is dtype and p.requires_grad and p.is_leaf for p in net.parameters())
        assert net.first.weight.grad.dtype is dtype
        assert net.count.calls.dtype is lucid.int64 and net.count.scratch.dtype is dtype
        assert isinstance(net.first.weight, Parameter) and next(iter(net.state_dict())) == "first.weight"


def test_conversions_that_are_not():
    net = Net()
    held = net.first.weight.data_ptr()
    assert net.to("cpu").cpu().to(dtype=lucid.float32).first.weight.data_ptr() == held
    for dtype in (lucid.int8, lucid.int64, lucid.uint8):
        with pytest.raises(TypeError, match="floating-point"):
            net.to(dtype)
    with pytest.raises(ValueError, match="unknown device"):
        net.to("moon")
    assert net.type(lucid.float64).count.calls.dtype is lucid.float64


# Hooks on calls.


def test_forward_hooks_see_and_replace():
    m = Linear(2, 2)
    log = []
    m.register_forward_pre_hook(lambda module, args: log.append(("pre", module is m, args)))
    m.register_forward_pre_hook(lambda module, args: args[0] + 1, prepend=True)
    m.register_forward_hook(lambda module, args, out: log.append(("post", args, out)))
    m.register_forward_hook(lambda module, args, out: out * 0)
    x = lucid.zeros(1, 2)
    out = m(x)
    assert out.tolist() == [[0.0, 0.0]]
    assert log[0][:2] == ("pre", True) and log[0][2][0].tolist() == [[1.0, 1.0]]
    assert log[1][0] == "post" and lucid.allclose(log[1][2], m.forward(x + 1))


def test_hooks_with_kwargs():
    class Add(Module):
        def forward(self, x, y=0):
            return x + y

    m = Add()
    m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"y": kwargs["y"] * 10}), with_kwargs=True)
    m.register_forward_hook(lambda module, args, kwargs, out: (out, kwargs["y"]), with_kwargs=True)
    assert m(1, y=2) == (21, 20)
    m.register_forward_pre_hook(lambda module, args, kwargs: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match="pair"):
        m(1, y=2)


def test_handles_remove_hooks_and_their_cost():
    m = Linear(2, 2)
    seen = []
    with m.register_forward_hook(lambda *a: seen.append(1)):
        other = m.register_forward_pre_hook(lambda *a: seen.append(2))
        m(lucid.zeros(1, 2))
    m(lucid.zeros(1, 2))
    assert seen == [2, 1, 2]
    other.remove()
    other.remove()
    m(lucid.zeros(1, 2))
    assert seen == [2, 1, 2] and m._hooks is None
    with pytest.raises(TypeError, match="callable"):
        m.register_forward_hook(3)


def test_hooks_that_are_always_called():
    class Fails(Module):
        def forward(self, x):
            raise KeyError("forward failed")

    m = Fails()
    seen = []
    m.register_forward_hook(lambda module, args, out: seen.append("not me"))
    m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)
    with pytest.raises(KeyError, match="forward failed"):
        m(1)
    assert seen == [None]
    m.register_forward_hook(lambda module, args, out: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="ZeroDivisionError"), pytest.raises(KeyError, match="forward failed"):
        m(1)


def test_an_always_called_hook_that_raises_is_not_called_twice():
    m = Linear(1, 1)
    calls = []

    def hook(module, args, out):
        calls.append(1)
        raise ValueError("hook failed")

    m.register_forward_hook(hook, always_call=True)
    with pytest.raises(ValueError, match="hook failed"):
        m(lucid.zeros(1, 1))
    assert calls == [1]


class Product(Module):
    def forward(self, x, y):
        return x * y, x + y


def test_backward_hooks_see_gradients():
    m = Product()
    seen = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((module, gin, gout)))
    m.register_full_backward_pre_hook(lambda module, gout: seen.append(gout))
    x = lucid.tensor([2.0], requires_grad=True)
    y = lucid.tensor([3.0], requires_grad=True)
    product, total = m(x, y)
    (product * 10 + total).sum().backward()
    assert [g.tolist() for g in seen[0]] == [[10.0], [1.0]]
    assert seen[1][0] is m
    assert [g.tolist() for g in seen[1][1]] == [[31.0], [21.0]]
    assert [g.tolist() for g in seen[1][2]] == [[10.0], [1.0]]
    assert x.grad.tolist() == [31.0] and y.grad.tolist() == [21.0]


def test_backward_hooks_replace_gradients():
    m = Product()
    m.register_full_backward_pre_hook(lambda module, gout: (gout[0] * 2, gout[1]))
    m.register_full_backward_hook(lambda module, gin, gout: (gin[0] * 100, gin[1]))
    x = lucid.tensor([2.0], requires_grad=True)
    y = lucid.tensor([3.0], requires_grad=True)
    m(x, y)[0].sum().backward()
    assert x.grad.tolist() == [600.0] and y.grad.tolist() == [4.0]


def test_backward_hooks_without_gradients_for_inputs():
    m = Linear(2, 2)
    seen = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((gin, gout[0].tolist())))
    m(lucid.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0, 1.0]])]
    assert m.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_backward_hooks_know_places_of_arguments_and_outputs():
    class Mixed(Module):
        def forward(self, n, x, flag):
            return {"a": x * n, "b": lucid.ones(2)}

    m = Mixed()
    seen = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((gin, gout)))
    x = lucid.tensor([2.0], requires_grad=True)
    m(3, x, lucid.tensor(True))["a"].sum().backward()
    (gin, gout) = seen[0]
    assert gin[0] is None and gin[1].tolist() == [3.0] and gin[2] is None
    assert gout[0].tolist() == [1.0] and gout[1] is None


@pytest.mark.parametrize(
    ("result", "message"), [(lambda g: (g[0], g[0], g[0]), "3 gradients"), (lambda g: (g[0], g[0]), "place 1")]
)
def test_backward_hooks_must_return_what_fits(result, message):
    m = Product()
    m.register_full_backward_hook(lambda module, gin, gout: result(gin))
    x = lucid.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=message):
        m(x, lucid.tensor([3.0]))[0].sum().backward()


def test_backward_hooks_under_transforms_and_second_order():
    m = Product()
    seen = []
    m.register_full_backward_hook(lambda module, gin, gout: (gin[0] * 2, gin[1]))
    m.register_full_backward_hook(lambda module, gin, gout: seen.append(1))
    xs, y = lucid.tensor([1.0, 2.0, 3.0]), lucid.tensor(5.0)
    assert vmap(grad(lambda x: m(x, y)[0]))(xs).tolist() == [10.0, 10.0, 10.0]
    assert seen
    x = lucid.tensor([2.0], requires_grad=True)
    (g,) = lucid.autograd.grad((m(x * x, x)[0]).sum(), [x], create_graph=True)
    # d(x² · x) with the first factor's gradient doubled: 2·x·2x + x² = 5x², whose derivative passes the hook as well.
    assert g.tolist() == [20.0]
    assert g.requires_grad


def test_backward_hooks_cost_nothing_without_grad():
    m = Product()
    m.register_full_backward_hook(lambda module, gin, gout: None)
    x = lucid.tensor([2.0], requires_grad=True)
    with lucid.no_grad():
        assert not m(x, x)[0].requires_grad


# State.


def test_state_dict_shares_memory():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["first.weight", "first.bias", "count.calls", "second.weight"]
    assert not any(t.requires_grad for t in state.values())
    state["first.weight"].zero_()
    assert net.first.weight.sum().item() == 0
    assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    assert next(iter(net.state_dict(prefix="net."))) == "net.first.weight"
    into = {"x": 1}
    assert net.state_dict(destination=into) is into and len(into) == 5


@pytest.mark.parametrize("as_numpy", [False, True])
def test_load_state_dict(as_numpy):
    a, b = Net(), Net().double()
    a.count.calls.fill_(7)
    held = list(b.parameters())
    state = {k: v.numpy() if as_numpy else v for k, v in a.state_dict().items()}
    keys = b.load_state_dict(state)
    assert keys.missing_keys == keys.unexpected_keys == []
    assert "matched" in repr(keys)
    for (name, t), (_, u) in zip(a.state_dict().items(), b.state_dict().items(), strict=True):
        assert np.array_equal(t.numpy(), u.numpy()), name
    assert all(
        x is y and x.dtype is lucid.float64 and x.requires_grad for x, y in zip(held, b.parameters(), strict=True)
    )
    assert b.count.calls.item() == 7


def test_load_by_assignment():
    net = Net()
    state = {k: v.to(lucid.float64) for k, v in Net().state_dict().items()}
    state["second.weight"] = state["second.weight"].numpy()
    net.first.weight.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert all(isinstance(p, Parameter) and p.dtype is lucid.float64 for p in net.parameters())
    assert not net.first.weight.requires_grad and net.first.bias.requires_grad
    state["first.bias"].zero_()
    assert net.first.bias.abs().sum().item() == 0


def test_everything_wrong_is_reported_at_once_and_nothing_changes():
    net = Net()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    state = {
        "first.weight": lucid.zeros(4, 3),
        "first.bias": lucid.zeros(5),
        "second.weight": "text",
        "second.bias": lucid.zeros(2),
        "third.weight": lucid.zeros(1),
        "count.scratch": lucid.zeros(2),
        "first.weight.deeper": lucid.zeros(1),
    }
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    message = str(caught.value)
    for part in (
        "size mismatch for first.bias: the shape in the state is (5,), in the module (4,)",
        "second.weight: a tensor or a NumPy array is needed, not str",
        "'second.bias'",
        "'third.weight'",
        "'count.scratch'",
        "'first.weight.deeper'",
        "Missing key(s): 'count.calls'",
        "does not fit Net",
    ):
        assert part in message, part
    for k, v in net.state_dict().items():
        assert np.array_equal(v.numpy(), before[k])


def test_loading_not_strictly():
    net = Net()
    keys = net.load_state_dict({"first.weight": lucid.zeros(4, 3), "nothing": lucid.zeros(1)}, strict=False)
    assert keys.missing_keys == ["first.bias", "count.calls", "second.weight"]
    assert keys.unexpected_keys == ["nothing"]
    assert repr(keys) == f"_IncompatibleKeys(missing_keys={keys.missing_keys}, unexpected_keys=['nothing'])"
    assert net.first.weight.sum().item() == 0
    with pytest.raises(RuntimeError, match=r"first\.bias"):
        net.load_state_dict({"first.bias": lucid.zeros(1)}, strict=False)
    with pytest.raises(TypeError, match="dictionary"):
        net.load_state_dict([1])


def test_shared_parameters_stand_under_all_their_names():
    net = Net()
    net.tied = net.first
    state = net.state_dict()
    assert {"first.weight", "tied.weight"} <= set(state)
    other = Net()
    other.tied = other.first
    other.load_state_dict(state)
    assert other.tied.weight is other.first.weight


class Extra(Module):
    def __init__(self, note):
        super().__init__()
        self.note = note

    def get_extra_state(self):
        return {"note": self.note}

    def set_extra_state(self, state):
        self.note = state["note"]


def test_extra_state():
    net = Sequential(Extra("hello"))
    state = net.state_dict()
    assert state["0._extra_state"] == {"note": "hello"}
    other = Sequential(Extra("other"))
    other.load_state_dict(state)
    assert other[0].note == "hello"
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): '0\._extra_state'"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): '0\._extra_state'"):
        Sequential(Module()).load_state_dict(state)
    with pytest.raises(RuntimeError, match="no extra state"):
        Module().get_extra_state()


def test_state_hooks():
    net = Net()
    log = []
    net.first.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append((prefix, keep_vars)))

    def save_renamed(module, state, prefix, metadata):
        state[prefix + "renamed"] = state.pop(prefix + "weight")

    handle = net.first.register_state_dict_post_hook(save_renamed)
    state = net.state_dict()
    assert log == [("first.", False)] and "first.renamed" in state and "first.weight" not in state

    def rename(module, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        log.append(metadata["version"])
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "renamed")

    other = Net()
    other.first.register_load_state_dict_pre_hook(rename)
    other.load_state_dict(state)
    assert log[-1] == 1 and "first.renamed" in state, "the dictionary that was given stays as it was"
    assert lucid.equal(other.first.weight, net.first.weight)
    handle.remove()
    assert "first.weight" in net.state_dict()


def test_load_post_hooks_run_on_loaded_values_and_may_forgive():
    net = Net()
    seen = []
    net.first.register_load_state_dict_post_hook(lambda m, keys: seen.append(m.weight.sum().item()))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net.load_state_dict({"first.weight": lucid.zeros(4, 3)})
    assert seen == [0.0]
    net.register_load_state_dict_post_hook(lambda m, keys: 3)
    with pytest.raises(TypeError, match="return None"):
        net.load_state_dict({})


def test_versions_reach_the_module_that_reads():
    class Versioned(Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.w = Parameter(lucid.zeros(1))

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            self.found = local_metadata.get("version")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = Sequential(Versioned())
    state = pickle.loads(pickle.dumps(net.state_dict()))
    assert isinstance(state, OrderedDict)
    net.load_state_dict(state)
    assert net[0].found == 2
    net.load_state_dict(dict(state))
    assert net[0].found is None


# Copying.


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_modules(duplicate):
    net = Net()
    net.tied = net.first
    net.second.requires_grad_(False)
    net.eval()
    other = duplicate(net)
    assert names(other.named_parameters()) == names(net.named_parameters())
    assert other.tied is other.first and other.first is not net.first
    assert all(isinstance(p, Parameter) for p in other.parameters())
    assert not other.training and not other.second.weight.requires_grad
    x = lucid.randn(2, 3)
    assert lucid.equal(other(x), net(x))
    with lucid.no_grad():
        other.first.weight.zero_()
    assert net.first.weight.abs().sum().item() > 0
    other.extra = Parameter(lucid.zeros(1))
    assert "extra" in names(other.named_parameters()) and not hasattr(net, "extra")


def test_shallow_copies_register_for_themselves():
    net = Net()
    other = copy.copy(net)
    assert other.first is net.first
    other.extra = Parameter(lucid.zeros(1))
    del other.count
    assert "extra" not in names(net.named_parameters()) and names(net.named_children()) == ["first", "count", "second"]


def test_hooks_are_copied_and_apart():
    net = Linear(1, 1)
    net.register_forward_hook(plus_one)
    other = copy.deepcopy(net)
    other.register_forward_hook(plus_one)
    x = lucid.zeros(1, 1)
    assert lucid.allclose(other(x), net(x) + 1)
    third = pickle.loads(pickle.dumps(net))
    for _ in range(3):
        third.register_forward_hook(plus_one)
    assert lucid.allclose(third(x), net(x) + 3)


def plus_one(module, args, out):
    return out + 1


def test_modules_are_freed_without_the_garbage_collector():
    gc.disable()
    try:
        net = Sequential(Net(), Linear(2, 2))
        net[1].register_forward_hook(plus_one)
        net(lucid.randn(1, 3)).sum().backward()
        seen = [weakref.ref(m) for m in net.modules()] + [weakref.ref(p) for p in net.parameters()]
        del net
        assert not any(r() is not None for r in seen)
    finally:
        gc.enable()


def test_modules_under_transforms():
    net = Linear(3, 2)
    x = lucid.randn(5, 3)
    assert lucid.allclose(vmap(net)(x), net(x))
    _, change = jvp(net, (x,), (lucid.ones(5, 3),))
    assert lucid.allclose(change, lucid.ones(5, 3) @ net.weight.T)


# Containers.


def linears(count):
    return [Linear(i + 1, i + 2) for i in range(count)]


@pytest.mark.parametrize("make", [ModuleList, lambda modules: Sequential(*modules)], ids=["ModuleList", "Sequential"])
def test_lists_of_modules_behave_like_lists(make):
    modules = linears(4)
    held = make(modules)
    reference = list(modules)

    def same():
        assert list(held) == reference and len(held) == len(reference)
        assert names(held.named_children()) == [str(i) for i in range(len(reference))]

    same()
    assert held[1] is modules[1] and held[-1] is modules[-1] and held[np.int64(2)] is modules[2]
    assert list(held[1:3]) == modules[1:3] and type(held[1:3]) is type(held)
    new = Linear(7, 7)
    held[1] = reference[1] = new
    same()
    assert held.append(modules[1]) is held
    reference.append(modules[1])
    same()
    extra = linears(2)
    assert held.extend(extra) is held
    reference.extend(extra)
    same()
    other = Linear(9, 9)
    held.insert(2, other)
    reference.insert(2, other)
    same()
    held.insert(-1, reference[0].__class__(5, 5))
    reference.insert(-1, held[-2])
    same()
    assert held.pop(1) is reference.pop(1)
    assert held.pop() is reference.pop()
    same()
    del held[0], reference[0]
    same()
    del held[1:3], reference[1:3]
    same()
    more = linears(1)
    held += more
    reference += more
    same()
    assert list(held + more) == reference + more
    for bad in (len(held), -len(held) - 1):
        with pytest.raises(IndexError):
            held[bad]
    before = list(held)
    for change in (lambda: held.insert(0, 3), lambda: held.extend([Linear(1, 1), 3]), lambda: held.append("x")):
        with pytest.raises(TypeError, match="holds modules"):
            change()
    assert list(held) == before
    with pytest.raises(TypeError):
        held.extend(3)
    with pytest.raises(IndexError):
        held.insert(100, Linear(1, 1))


def test_sequential():
    a, b = Linear(2, 3), Linear(3, 4)
    net = Sequential(OrderedDict(start=a, end=b))
    assert names(net.named_children()) == ["start", "end"]
    x = lucid.randn(5, 2)
    assert lucid.equal(net(x), b(a(x)))
    assert names(net[1:].named_children()) == ["end"]
    assert list((net + Sequential(a))._modules) == ["0", "1", "2"]
    assert list(net * 2) == list(2 * net) == [a, b, a, b]
    twice = Sequential(a)
    twice *= 3
    assert list(twice) == [a, a, a]
    net[0] = b
    assert net.start is b
    with pytest.raises(ValueError, match="0 times"):
        net * 0
    with pytest.raises(TypeError, match="whole number"):
        net * 1.5
    assert Sequential()(5) == 5


def test_module_list_prints_repetitions_once():
    assert repr(ModuleList()) == "ModuleList()"
    layers = ModuleList([Linear(1, 1), Linear(1, 1), Linear(2, 2)])
    assert repr(layers) == "ModuleList(\n  (0-1): 2 x Linear(1, 1)\n  (2): Linear(2, 2)\n)"


def test_module_dict():
    a, b = linears(2)
    held = ModuleDict({"a": a})
    held["b"] = b
    assert list(held) == list(held.keys()) == ["a", "b"] and list(held.values()) == [a, b] and len(held) == 2
    assert dict(held.items()) == {"a": a, "b": b} and "a" in held and "forward" not in held and 3 not in held
    assert names(held.named_parameters())[0] == "a.weight"
    held.update([("b", a), ["c", b]])
    assert held["b"] is a and held.pop("c") is b
    del held["a"]
    with pytest.raises(KeyError):
        held["a"]
    with pytest.raises(KeyError):
        del held["forward"]
    with pytest.raises(KeyError, match="already has"):
        held["keys"] = a
    with pytest.raises(TypeError, match="holds modules"):
        held.update({"x": a, "y": 3})
    with pytest.raises(ValueError, match="pair"):
        held.update([1, 2])
    with pytest.raises(TypeError):
        held.update(3)
    assert list(held) == ["b"]
    other = ModuleDict(held)
    held.clear()
    assert len(held) == 0 and list(other) == ["b"]


def test_parameter_list():
    p = Parameter(lucid.zeros(2))
    held = ParameterList([p, lucid.ones(3)])
    assert held[0] is p and all(isinstance(q, Parameter) for q in held)
    held.append(lucid.zeros(1)).extend([lucid.zeros(4)])
    held += [lucid.zeros(5)]
    assert [q.shape for q in held] == [(2,), (3,), (1,), (4,), (5,)]
    assert list(held.state_dict()) == ["0", "1", "2", "3", "4"]
    held[1] = lucid.zeros(9)
    assert held[1].shape == (9,) and [q.shape for q in held[1:3]] == [(9,), (1,)]
    assert "(0): Parameter containing: [lucid.float32 of size 2]" in repr(held)
    with pytest.raises(TypeError, match="tensors"):
        held.append(3)
    sum(q.sum() for q in held).backward()
    assert held[0].grad is not None


def test_parameter_dict():
    held = ParameterDict({"a": lucid.zeros(1)})
    held["b"] = Parameter(lucid.zeros(2))
    assert all(isinstance(p, Parameter) for p in held.values()) and list(held) == ["a", "b"]
    assert held.get("c") is None and held.get("a") is held["a"]
    assert held.setdefault("c", lucid.zeros(3)) is held["c"] and held.setdefault("a", None) is held["a"]
    assert held.popitem()[0] == "c"
    both = held | {"d": lucid.zeros(4)}
    assert list(both) == ["a", "b", "d"] and both["a"] is held["a"] and "d" not in held
    held |= {"e": lucid.zeros(5)}
    assert list(held.copy()) == ["a", "b", "e"]
    assert list(ParameterDict.fromkeys(["x", "y"], lucid.zeros(1))) == ["x", "y"]
    assert "(b): Parameter containing: [lucid.float32 of size 2]" in repr(held)
    with pytest.raises(KeyError):
        ParameterDict().popitem()


# Summaries.


def test_summary_counts():
    net = Net()
    found = summary(net, (5, 3))
    by_name = {layer.name: layer for layer in found.layers}
    assert [layer.name for layer in found.layers] == ["", "first", "count", "second"]
    assert found.total_parameters == 16 + 8 and found.trainable_parameters == 24
    assert by_name["first"].flops == 5 * 3 * 4 and by_name["second"].flops == 5 * 4 * 2
    assert found.flops == 60 + 40
    assert by_name["first"].output_shape == (5, 4) and by_name[""].output_shape == (5, 2)
    assert by_name["first"].activation_bytes == 5 * 4 * 4 and found.layers[0].activation_bytes == 4 * (20 + 20 + 10)
    assert found.input_bytes == 60 and found.memory == 60 + 4 * 24 + 200
    text = str(found)
    for part in ("  first: Linear", "(5, 4)", "Parameters: 24 (24 trainable, 0 frozen)", "100"):
        assert part in text


def test_summary_leaves_the_model_as_it_was():
    net = Net()
    net.second.eval()
    net.first.register_forward_hook(plus_one)
    calls = net.count.calls.item()
    before = [(m.training, m._hooks is None) for m in net.modules()]
    summary(net, lucid.zeros(2, 3))
    assert [(m.training, m._hooks is None) for m in net.modules()] == before
    assert net.count.calls.item() == calls + 1
    with pytest.raises(RuntimeError, match="matmul"):
        summary(net, (2, 9))
    assert [(m.training, m._hooks is None) for m in net.modules()] == before
    assert lucid.allclose(net(lucid.ones(1, 3)), net(lucid.ones(1, 3)))


def test_summary_of_other_inputs_and_products():
    class Attend(Module):
        def __init__(self):
            super().__init__()
            self.unused = Linear(2, 2)

        def forward(self, q, k, scale=1.0):
            self.kept = lucid.einsum("bqd,bkd->bqk", q, k) * scale
            return self.kept, self.kept.sum()

    net = Attend()
    for given in ([(2, 3, 4), (2, 5, 4)], (lucid.zeros(2, 3, 4), lucid.zeros(2, 5, 4))):
        found = summary(net, given, kwargs={"scale": lucid.tensor(2.0)})
        assert found.flops == 2 * 3 * 5 * 4
        assert found.layers[0].output_shape == [(2, 3, 5), ()]
        assert "not run" in str(found)
        assert type(net.kept) is lucid.Tensor
    twice = Linear(3, 3)
    assert "called 2 times" in str(summary(Sequential(twice, twice), (1, 3)))
    for bad in ((), 3, None):
        with pytest.raises(TypeError, match="summary needs"):
            summary(net, bad)


def test_summary_of_models_that_write_and_look_at_values():
    class Cautious(Module):
        def forward(self, x):
            out = lucid.zeros(x.shape[0], 2)
            for i in range(2):
                out[:, i] = (x @ x.T).sum(1) * (i + 1)
            if (out > 1e9).any():
                return out * 0
            out += 1.0
            return out

    found = summary(Cautious(), (3, 4))
    assert found.flops == 2 * 3 * 3 * 4 and found.layers[0].output_shape == (3, 2)

    class Remembers(Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", lucid.zeros(2))

        def forward(self, x):
            self.last.copy_(x)
            return x

    net = Remembers()
    with pytest.raises(RuntimeError, match="summary"):
        summary(net, lucid.ones(2))
    assert type(net.last) is lucid.Tensor and net.last.tolist() == [0.0, 0.0] and net._hooks is None


def test_summary_counts_convolutions_and_fused_operations():
    """Whatever the layers are called: the work of a primitive follows from its shapes."""
    from lucid.core.primitive import P
    from lucid.ops.contraction import labelled

    w, x, y = (8, 2, 3, 3), (5, 4, 6, 6), (5, 8, 4, 4)
    work = 5 * 8 * 4 * 4 * 2 * 3 * 3
    assert P.convolution.multiply_adds([x, w], y, {}) == work
    assert P.convolution_input.multiply_adds([y, w], x, {}) == work
    assert P.convolution_weight.multiply_adds([x, y], w, {}) == work
    assert P.contract.multiply_adds([(2, 3), (3, 4)], (2, 4), {"labels": labelled("ij", "jk", "ik")}) == 24


def test_modules_can_be_called_in_threads():
    net = Net()
    x = lucid.randn(4, 3)
    expected = net(x).detach()
    wrong = []

    def work():
        for _ in range(20):
            if not lucid.equal(net(x), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_layers_refuse_inputs_of_another_type() -> None:
    x = lucid.ones(2, 3, dtype=lucid.float64)
    layers = (
        lambda: nn.Linear(3, 2)(x),
        lambda: nn.Linear(3, 2)(x.long()),
        lambda: nn.Linear(3, 2, bias=False)(x),
        lambda: nn.Bilinear(3, 3, 2)(x, x),
        lambda: nn.functional.linear(x, lucid.ones(3)),
        lambda: nn.functional.linear(x.float(), lucid.ones(2, 3), x[0, :2]),
        lambda: nn.PReLU()(x),
        lambda: nn.LayerNorm(3)(x),
    )
    for layer in layers:
        with pytest.raises(TypeError, match=r"needs tensors of one floating-point type, not .*; convert them"):
            layer()
    assert nn.Linear(3, 2).double()(x).dtype is lucid.float64
