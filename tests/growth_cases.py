"""Everything that takes or makes n tensors, or runs in a loop, as cases for `growth`."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from growth import Case, Run

import lucid
import lucid.nn as nn
from lucid import autograd, data, func, optim
from lucid.core.primitive import P
from lucid.nn.summary import summary
from lucid.nn.utils import rnn

CASES: dict[str, dict[str, Case]] = {}
WIDTH = 1024  # so many that a copy of n rows is seen beside what Python allocates for one step


def case(group: str, name: str = "") -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES.setdefault(group, {})[name or function.__name__] = function
        return function

    return add


def whole(n: int, grad: bool = True) -> Any:
    """A tensor of n rows."""
    return lucid.ones(n, WIDTH, requires_grad=grad)


def rows(n: int, grad: bool = True) -> list[Any]:
    """n leaves."""
    return [lucid.ones(WIDTH, requires_grad=grad) for _ in range(n)]


# --- joining: every function of a sequence of tensors, forward and backward ---------------------


def total(out: Any) -> Any:
    """The sum of everything in a tensor or in a sequence of them."""
    if isinstance(out, lucid.Tensor):
        return out.sum()
    return lucid.stack([t.sum() for t in out]).sum()


def joined(group: str, name: str, function: Callable[[list[Any]], Any], parts: Callable[[int], list[Any]]) -> None:
    """Cases for a function of tensors: values and gradients; for a primitive also second order and inside transforms."""

    def forward(n: int) -> Run:
        xs = [x.detach() for x in parts(n)]
        return lambda: function(xs)

    def backward(n: int) -> Run:
        xs = parts(n)
        return lambda: total(function(xs)).backward()

    def second_order(n: int) -> Run:
        xs = parts(n)
        return lambda: autograd.grad(total(function(xs)), xs, create_graph=True, allow_unused=True)

    def forward_mode(n: int) -> Run:
        xs = [x.detach() for x in parts(n)]
        return lambda: func.jvp(lambda *ys: total(function(list(ys))), tuple(xs), tuple(xs))

    def batched(n: int) -> Run:
        xs = [x.detach().unsqueeze(0) for x in parts(n)]
        return lambda: func.vmap(lambda *ys: total(function(list(ys))))(*xs)

    def traced(n: int) -> Run:
        xs = [x.detach() for x in parts(n)]
        return lambda: str(func.make_graph(lambda *ys: total(function(list(ys))))(*xs))

    more = (second_order, forward_mode, batched, traced) if group == "primitives" else ()
    for kind in (forward, backward, *more):
        CASES.setdefault(group, {})[f"{name} {kind.__name__}"] = kind


# Primitives that take any number of operands. Every one in the registry must stand here or in BOUNDED.
PRIMITIVES: dict[str, tuple[Callable[[list[Any]], Any], Callable[[int], list[Any]]]] = {
    "cat": (lambda xs: P.cat(*xs, dim=0), rows),
    "stack": (lambda xs: P.stack(*xs, dim=0), rows),
    "parts_back": (
        lambda xs: P.parts_back(
            *xs, places=tuple((i * WIDTH, (WIDTH,), (1,)) for i in range(len(xs))), shape=(len(xs), WIDTH)
        ),
        rows,
    ),
}
BOUNDED = {
    "index index_back index_put index_prod index_amax index_amin": "as many positions as a tensor has dimensions",
}


def _spread(function: Callable[..., Any], xs: Sequence[Any]) -> Any:
    return function(*xs)


# Public functions of a sequence of tensors. Every one must stand here or in NOT_LINEAR.
SEQUENCES: dict[str, tuple[Callable[[list[Any]], Any], Callable[[int], list[Any]]]] = {
    **{
        name: (getattr(lucid, name), rows)
        for name in "cat concat concatenate stack hstack vstack dstack column_stack row_stack".split()
    },
    **{
        name: (partial(_spread, getattr(lucid, name)), rows)
        for name in "broadcast_tensors atleast_1d atleast_2d atleast_3d".split()
    },
    "einsum": (lambda xs: lucid.einsum(",".join("a" * len(xs)) + "->a", *xs), rows),
    "result_type": (lambda xs: [xs[0].to(lucid.result_type(*xs))], rows),
    "sum of a list": (sum, rows),
    "where chain": (lambda xs: _where_chain(xs), rows),
    "chain of additions": (lambda xs: _chain(xs), rows),
    "rows of a mixture": (lambda xs: lucid.stack([x.logsumexp(0) for x in xs]), rows),
    "pad_sequence": (rnn.pad_sequence, rows),
    "pack_sequence": (lambda xs: rnn.pack_sequence(xs).data, rows),
    "parameters_to_vector": (nn.utils.parameters_to_vector, rows),
}
NOT_LINEAR = {
    "meshgrid cartesian_prod": "n results with n dimensions each",
    "block_diag combinations": "the result itself has n² elements",
    "multi_dot": "the search for the best order of multiplication looks at all pairs",
    "clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm vector_to_parameters": "among the optimizers",
    "broadcast_arrays": "another name",
    "eval": "does nothing with them",
}


def _where_chain(xs: Sequence[Any]) -> Any:
    out = xs[0]
    for x in xs[1:]:
        out = lucid.where(x > 0, x, out)
    return out


def _chain(xs: Sequence[Any]) -> Any:
    out = xs[0]
    for x in xs[1:]:
        out = out + x
    return out


for _name, (_function, _parts) in PRIMITIVES.items():
    joined("primitives", _name, _function, _parts)
for _name, (_function, _parts) in SEQUENCES.items():
    joined("joining", _name, _function, _parts)


# --- slicing: parts of one tensor, forward and backward ------------------------------------------

SLICINGS: dict[str, Callable[[Any], Any]] = {
    "unbind": lucid.unbind,
    "iteration": list,
    "x[i]": lambda x: [x[i] for i in range(len(x))],
    "x[i, :]": lambda x: [x[i, :] for i in range(len(x))],
    "x[i][j]": lambda x: [x[i][0] for i in range(len(x))],
    "x[i:i + 1]": lambda x: [x[i : i + 1] for i in range(len(x))],
    "select": lambda x: [x.select(0, i) for i in range(len(x))],
    "narrow": lambda x: [x.narrow(0, i, 1) for i in range(len(x))],
    "split": lambda x: lucid.split(x, 1),
    "split of sizes": lambda x: lucid.split(x, [1] * len(x)),
    "chunk": lambda x: lucid.chunk(x, len(x)),
    "tensor_split": lambda x: lucid.tensor_split(x, len(x)),
    "tensor_split at": lambda x: lucid.tensor_split(x, list(range(1, len(x)))),
    "vsplit": lambda x: lucid.vsplit(x, len(x)),
    "elements": lambda x: [x[i, 0] for i in range(len(x))],
    "x.t()[:, i]": lambda x: [x.t()[:, i] for i in range(len(x))],
    "x.transpose(0, 1)[i]": lambda x: [x.transpose(0, 1)[i] for i in range(len(x))],
    "x.reshape(-1)[i:j]": lambda x: [x.reshape(-1)[i * WIDTH : (i + 1) * WIDTH] for i in range(len(x))],
    "x.view(n, 2, -1)[i, 1]": lambda x: [x.view(len(x), 2, -1)[i, 1] for i in range(len(x))],
    "x.unfold(1, 3, 3)[i]": lambda x: [x.unfold(1, 3, 3)[i] for i in range(len(x))],
    "overlapping windows": lambda x: [x.unfold(0, 2, 1)[i] for i in range(len(x) - 1)],
    "x.diagonal()[i]": lambda x: [x.diagonal()[i] for i in range(len(x))],
    "x.diagonal(i)": lambda x: [x.diagonal(i) for i in range(len(x))],
    "chunks of a view": lambda x: lucid.chunk(x.t(), len(x), 1),
    "iteration over a view": lambda x: list(x.t().t()),
    "x.expand(2, n, m)[1, i]": lambda x: [x.expand(2, *x.shape)[1, i] for i in range(len(x))],
    "as_strided": lambda x: [x.as_strided((WIDTH,), (1,), i * WIDTH) for i in range(len(x))],
    "x[1:][1:]...": lambda x: [_shortened(x)[-1]],
    "x[1:][1:]... at each": lambda x: [y[0] for y in _shortened(x)],
    "sum of slices": lambda x: sum(x[i] for i in range(len(x))),
    "index by a tensor": lambda x: x[lucid.arange(len(x))],
}


THROUGHOUT = (
    "x[i]",
    "iteration",
    "x.t()[:, i]",
    "overlapping windows",
    "x[1:][1:]... at each",
)  # inside transforms too


def _shortened(x: Any) -> list[Any]:
    out = [x]
    for _ in range(len(x) - 1):
        out.append(out[-1][1:])
    return out


def sliced(name: str, function: Callable[[Any], Any]) -> None:
    def forward(n: int) -> Run:
        x = whole(n, grad=False)
        return lambda: function(x)

    def backward(n: int) -> Run:
        x = whole(n)
        return lambda: total(function(x)).backward()

    def of_a_result(n: int) -> Run:
        x = whole(n)
        return lambda: total(function(x * 1)).backward()

    def second_order(n: int) -> Run:
        x = whole(n)

        def run() -> Any:
            (g,) = autograd.grad(total([t * t for t in function(x)]), [x], create_graph=True)
            return autograd.grad(g.sum(), [x])

        return run

    def vmap_of_grad(n: int) -> Run:
        x = whole(n, grad=False).unsqueeze(0)
        return lambda: func.vmap(func.grad(lambda y: total(function(y))))(x)

    def forward_mode(n: int) -> Run:
        x = whole(n, grad=False)
        return lambda: func.jvp(lambda y: total(function(y)), (x,), (x,))

    more = (of_a_result, second_order, vmap_of_grad, forward_mode) if name in THROUGHOUT else ()
    for kind in (forward, backward, *more):
        CASES.setdefault("slicing", {})[f"{name} {kind.__name__}"] = kind


for _name, _slicing in SLICINGS.items():
    sliced(_name, _slicing)


# --- writing: n writes to parts of one tensor ----------------------------------------------------


def _states(x: Any, n: int) -> Any:
    """A recurrence with its states in one tensor."""
    h = lucid.zeros(n, WIDTH)
    h[0] = x
    for t in range(1, n):
        h[t] = lucid.tanh(h[t - 1].clone())
    return h.sum()


def _accumulated(x: Any, n: int) -> Any:
    h = lucid.zeros(n, WIDTH) * x
    for t in range(n):
        h[t] += x
    return h.sum()


def _filled(x: Any, n: int) -> Any:
    h = lucid.zeros(n, WIDTH)
    for t in range(n):
        h[t, 1:3] = x[1:3]
    return (h * h).sum()


def _columns(x: Any, n: int) -> Any:
    h = lucid.zeros(WIDTH, n)
    for t in range(n):
        h[:, t] = x
    return h.sum()


def _through_views(x: Any, n: int) -> Any:
    h = lucid.zeros(n, WIDTH)
    for t in range(n):
        h.t()[:, t] = x
        h.view(-1)[t * WIDTH : t * WIDTH + 3].mul_(x[:3])
        h[t:][0].select(0, 1).copy_(x[0])
    return h.sum()


WRITINGS = {
    "states": _states,
    "accumulated": _accumulated,
    "filled": _filled,
    "columns": _columns,
    "through views": _through_views,
}


def written(name: str, function: Callable[[Any, int], Any]) -> None:
    def forward(n: int) -> Run:
        x = lucid.ones(WIDTH)
        return lambda: function(x, n)

    def backward(n: int) -> Run:
        x = lucid.ones(WIDTH, requires_grad=True)
        return lambda: function(x, n).backward()

    def forward_mode(n: int) -> Run:
        x = lucid.ones(WIDTH)
        return lambda: func.jvp(lambda y: function(y, n), (x,), (x,))

    def batched(n: int) -> Run:
        x = lucid.ones(1, WIDTH)
        return lambda: func.vmap(lambda y: function(y, n))(x)

    def second_order(n: int) -> Run:
        x = lucid.ones(WIDTH, requires_grad=True)

        def run() -> Any:
            (g,) = autograd.grad(function(x, n), [x], create_graph=True)
            return autograd.grad((g * x).sum(), [x])

        return run

    def vmap_of_grad(n: int) -> Run:
        x = lucid.ones(1, WIDTH)
        return lambda: func.vmap(func.grad(lambda y: function(y, n)))(x)

    def jvp_of_grad(n: int) -> Run:
        x = lucid.ones(WIDTH)
        return lambda: func.jvp(func.grad(lambda y: function(y, n)), (x,), (x,))

    # A part that is read where a write covers only some of it is added to the whole in a recorded pass, for each write.
    more = (second_order, vmap_of_grad, jvp_of_grad) if name != "through views" else ()
    for kind in (forward, backward, forward_mode, batched, *more):
        CASES.setdefault("writing", {})[f"{name} {kind.__name__}"] = kind


for _name, _writing in WRITINGS.items():
    written(_name, _writing)


# --- autograd ------------------------------------------------------------------------------------


class Many(autograd.Function):
    """As many results as operands."""

    @staticmethod
    def forward(ctx: Any, *xs: Any) -> Any:
        return tuple(x * 2 for x in xs)

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> Any:
        return tuple(ct * 2 for ct in cts)


def _long(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x * 1.5
    return x


@case("autograd")
def many_outputs_of_one_function(n: int) -> Run:
    xs = rows(n)
    return lambda: total(Many.apply(*xs)).backward()


@case("autograd")
def grad_of_many_inputs(n: int) -> Run:
    xs = rows(n)
    return lambda: autograd.grad(_chain(xs).sum(), xs)


@case("autograd")
def grad_of_many_outputs(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: autograd.grad([(x * k).sum() for k in range(n)], x)


@case("autograd")
def backward_of_many_roots(n: int) -> Run:
    xs = rows(n)
    return lambda: autograd.backward([x.sum() for x in xs])


@case("autograd")
def long_chain(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: _long(x, n).sum().backward()


@case("autograd")
def long_chain_second_order(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: autograd.grad(_long(x, n).sum(), x, create_graph=True)


@case("autograd")
def hooks_on_one_tensor(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)

    def run() -> Any:
        handles = [x.register_hook(lambda g: g * 1) for _ in range(n)]
        x.sum().backward()
        for handle in handles:
            handle.remove()

    return run


@case("autograd")
def hooks_on_many_tensors(n: int) -> Run:
    xs = rows(n)

    def run() -> Any:
        for x in xs:
            x.register_hook(lambda g: g * 1)
        _chain(xs).sum().backward()

    return run


@case("autograd")
def retained_gradients(n: int) -> Run:
    xs = rows(n)

    def run() -> Any:
        ys = [x * 1 for x in xs]
        for y in ys:
            y.retain_grad()
        _chain(ys).sum().backward()
        return ys

    return run


@case("autograd")
def checkpoints(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)

    def run() -> Any:
        y = x
        for _ in range(n):
            y = autograd.checkpoint(lucid.tanh, y)
        y.sum().backward()

    return run


@case("autograd")
def one_checkpoint_of_many_steps(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: autograd.checkpoint(lambda y: _deep(y, n), x).sum().backward()


def _deep(y: Any, n: int) -> Any:
    for _ in range(n):
        y = lucid.tanh(y)
    return y


@case("autograd")
def saved_tensor_hooks(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)

    def run() -> Any:
        with autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = _deep(x, n)
        y.sum().backward()

    return run


@case("autograd")
def anomaly_detection(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)

    def run() -> Any:
        with autograd.detect_anomaly():
            _deep(x, n).sum().backward()

    return run


@case("autograd")
def views_of_views(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)

    def run() -> Any:
        y = x * 1
        for _ in range(n):
            y = y.view(WIDTH)
        y.sum().backward()

    return run


@case("autograd")
def explain(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: str(autograd.explain(_deep(x, n).sum(), x))


@case("autograd")
def draw(n: int) -> Run:
    x = lucid.ones(WIDTH, requires_grad=True)
    return lambda: autograd.graph.draw(_deep(x, n).sum(), max_nodes=10**6).svg


# --- transforms ----------------------------------------------------------------------------------


@case("transforms")
def vmap_of_many_inputs(n: int) -> Run:
    xs = [lucid.ones(2, WIDTH) for _ in range(n)]
    return lambda: func.vmap(lambda *ys: _chain(ys))(*xs)


@case("transforms")
def jvp_of_many_inputs(n: int) -> Run:
    xs = tuple(rows(n, grad=False))
    return lambda: func.jvp(lambda *ys: _chain(ys), xs, xs)


@case("transforms")
def grad_of_many_arguments(n: int) -> Run:
    xs = rows(n, grad=False)
    return lambda: func.grad(lambda *ys: _chain(ys).sum(), argnums=tuple(range(n)))(*xs)


@case("transforms")
def grad_of_a_tree(n: int) -> Run:
    xs = {str(i): x for i, x in enumerate(rows(n, grad=False))}
    return lambda: func.grad(lambda ys: _chain(list(ys.values())).sum())(xs)


@case("transforms")
def vjp_of_many_outputs(n: int) -> Run:
    x = lucid.ones(WIDTH)

    def run() -> Any:
        out, pull = func.vjp(lambda y: tuple(y * k for k in range(n)), x)
        return pull(out)

    return run


@case("transforms")
def make_graph(n: int) -> Run:
    x = lucid.ones(WIDTH)

    def run() -> Any:
        program = func.make_graph(lambda y: _deep(y, n))(x)
        return str(program), program(x), func.grad(lambda y: program(y).sum())(x)

    return run


@case("transforms")
def scan(n: int) -> Run:
    x = whole(n)

    def run() -> Any:
        last, steps = lucid.scan(lambda h, y: (lucid.tanh(h + y), h * 2), lucid.zeros(WIDTH), x)
        (last.sum() + steps.sum()).backward()

    return run


@case("transforms")
def while_loop(n: int) -> Run:
    x = lucid.ones(WIDTH)
    return lambda: lucid.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, lucid.tanh(s[1])), (lucid.tensor(0), x))


@case("transforms")
def views_inside_vmap(n: int) -> Run:
    x = lucid.ones(2, n, WIDTH)

    def kept(y: Any) -> Any:
        parts = list(y)
        return total(parts)

    return lambda: func.vmap(kept)(x)


# --- modules, optimizers, data, files ------------------------------------------------------------


def _layers(n: int) -> list[Any]:
    return [nn.Linear(2, 2) for _ in range(n)]


def modules(name: str, function: Callable[[Any], Any]) -> None:
    def prepare(n: int) -> Run:
        model = nn.Sequential(*_layers(n))
        return lambda: function(model)

    CASES.setdefault("modules", {})[name] = prepare


MODULES: dict[str, Callable[[Any], Any]] = {
    "parameters": lambda m: list(m.parameters()),
    "named_parameters": lambda m: list(m.named_parameters()),
    "named_modules": lambda m: list(m.named_modules()),
    "state_dict": lambda m: m.state_dict(),
    "load_state_dict": lambda m: m.load_state_dict(m.state_dict()),
    "train": lambda m: m.train(),
    "apply": lambda m: m.apply(lambda _: None),
    "double": lambda m: m.double(),
    "zero_grad": lambda m: m.zero_grad(),
    "repr": repr,
    "deepcopy": copy.deepcopy,
    "call": lambda m: m(lucid.ones(1, 2)),
    "train step": lambda m: m(lucid.ones(1, 2)).sum().backward(),
    "functional_call": lambda m: func.functional_call(m, dict(m.named_parameters()), (lucid.ones(1, 2),)),
    "append": lambda m: [m.append(nn.ReLU()) for _ in range(len(m))],
    "indexing": lambda m: [m[i] for i in range(len(m))],
    "slice": lambda m: m[1:],
    "summary": lambda m: str(summary(m, lucid.ones(1, 2))),
}
for _name, _of_module in MODULES.items():
    modules(_name, _of_module)


@case("modules", "Sequential")
def _sequential(n: int) -> Run:
    layers = _layers(n)
    return lambda: nn.Sequential(*layers)


@case("modules", "ModuleList")
def _module_list(n: int) -> Run:
    layers = _layers(n)
    return lambda: list(nn.ModuleList(layers).parameters())


@case("modules", "ModuleDict")
def _module_dict(n: int) -> Run:
    layers = {str(i): layer for i, layer in enumerate(_layers(n))}
    return lambda: list(nn.ModuleDict(layers).parameters())


@case("modules", "ParameterList")
def _parameter_list(n: int) -> Run:
    values = [nn.Parameter(lucid.ones(2)) for _ in range(n)]
    return lambda: _chain(list(nn.ParameterList(values)))


@case("modules", "ParameterDict")
def _parameter_dict(n: int) -> Run:
    values = {str(i): nn.Parameter(lucid.ones(2)) for i in range(n)}
    return lambda: list(nn.ParameterDict(values).values())


def _with_gradients(n: int) -> list[Any]:
    xs = [lucid.ones(3, 3, requires_grad=True) for _ in range(n)]
    for x in xs:
        x.grad = lucid.ones(3, 3)
    return xs


def optimizer(name: str, kind: Any) -> None:
    def steps(n: int) -> Run:
        xs = _with_gradients(n)
        if name == "SparseAdam":
            for x in xs:
                x.grad = x.grad.to_sparse()

        def run() -> Any:
            opt = kind(xs)
            for _ in range(2):
                opt.step(lambda: lucid.tensor(1.0)) if name == "LBFGS" else opt.step()
            opt.load_state_dict(opt.state_dict())
            opt.zero_grad()

        return run

    CASES.setdefault("optimizers", {})[name] = steps


OPTIMIZERS = {
    name: kind
    for name, kind in vars(optim).items()
    if isinstance(kind, type) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
}
for _name, _kind in OPTIMIZERS.items():
    optimizer(_name, _kind)


@case("optimizers")
def parameter_groups(n: int) -> Run:
    xs = _with_gradients(n)
    return lambda: optim.SGD([{"params": [x]} for x in xs], lr=0.1).step()


@case("optimizers")
def clip_grad_norm(n: int) -> Run:
    xs = _with_gradients(n)
    return lambda: nn.utils.clip_grad_norm_(xs, 1.0)


@case("optimizers")
def clip_grads_with_norm(n: int) -> Run:
    xs = _with_gradients(n)
    return lambda: nn.utils.clip_grads_with_norm_(xs, 1.0, nn.utils.get_total_norm([x.grad for x in xs]))


@case("optimizers")
def clip_grad_value(n: int) -> Run:
    xs = _with_gradients(n)
    return lambda: nn.utils.clip_grad_value_(xs, 1.0)


@case("optimizers")
def vector_to_parameters(n: int) -> Run:
    xs = _with_gradients(n)
    return lambda: nn.utils.vector_to_parameters(lucid.ones(9 * n), xs)


@case("optimizers")
def averaged_model(n: int) -> Run:
    model = nn.Sequential(*_layers(n))
    return lambda: optim.swa_utils.AveragedModel(model).update_parameters(model)


@case("data")
def loader(n: int) -> Run:
    dataset = data.TensorDataset(whole(n, grad=False), lucid.arange(n))
    return lambda: list(data.DataLoader(dataset, batch_size=4, shuffle=True))


@case("data")
def collation(n: int) -> Run:
    batch = [(row, 1.0, {"a": row}) for row in rows(n, grad=False)]
    return lambda: data.default_collate(batch)


@case("data")
def datasets(n: int) -> Run:
    parts = [data.TensorDataset(row.unsqueeze(0)) for row in rows(n, grad=False)]
    return lambda: [row for (row,) in data.ConcatDataset(parts)]


@case("data")
def splits(n: int) -> Run:
    dataset = data.TensorDataset(whole(n, grad=False))
    return lambda: [len(part) for part in data.random_split(dataset, [1] * n)]


@case("data")
def padding(n: int) -> Run:
    sequences = [lucid.ones(1 + i % 3, 4, requires_grad=True) for i in range(n)]

    def run() -> Any:
        packed = rnn.pack_padded_sequence(
            rnn.pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=False
        )
        padded, _ = rnn.pad_packed_sequence(packed)
        total(rnn.unpack_sequence(packed)).backward()
        return padded

    return run


@case("data")
def long_sequence(n: int) -> Run:
    x = lucid.ones(n, 2, 4, requires_grad=True)
    layer = nn.LSTM(4, 4)
    return lambda: layer(x)[0].sum().backward()


@case("data")
def packed_sequence(n: int) -> Run:
    sequences = [lucid.ones(1 + i, 2) for i in (n, n // 2)]
    layer = nn.GRU(2, 2)
    return lambda: layer(rnn.pack_sequence(sequences))[0].data.sum().backward()


@case("data")
def files(n: int) -> Run:
    state = {str(i): row for i, row in enumerate(rows(n, grad=False))}

    def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            lucid.save(state, f"{folder}/state")
            return lucid.load(f"{folder}/state")

    return run


@case("data")
def tree(n: int) -> Run:
    from lucid.core.tree import paths, tree_map

    nest = [{"a": row, "b": (row,)} for row in rows(n, grad=False)]
    return lambda: (tree_map(lambda x, y: x, nest, nest), paths(nest))


@case("data")
def nested_lists(n: int) -> Run:
    values = [[1.0] * 4 for _ in range(n)]
    return lambda: lucid.tensor(values).tolist()


@case("data")
def list_of_tensors(n: int) -> Run:
    values = [lucid.tensor(1.0) for _ in range(n)]
    return lambda: lucid.tensor(values)


@case("data")
def list_of_rows(n: int) -> Run:
    values = rows(n, grad=False)
    return lambda: lucid.tensor(values)


@case("data")
def text(n: int) -> Run:
    lucid.set_printoptions(threshold=10**9)
    x = lucid.ones(n, 8)
    return lambda: repr(x)
