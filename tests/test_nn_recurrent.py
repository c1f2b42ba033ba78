"""Recurrent layers and cells: values from the equations, packing, transforms and errors."""

import numpy as np
import pytest
from samples_nn_norms import gru_cell, lstm_cell, rnn_cell

import lucid
from lucid import func
from lucid.autograd import gradcheck, gradgradcheck
from lucid.nn.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from lucid.nn.utils import rnn
from lucid.ops.nn import recurrent as ops

RNG = np.random.default_rng()
EQUATIONS = {"RNN": rnn_cell, "LSTM": lstm_cell, "GRU": gru_cell}
CLASSES = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


@pytest.fixture(autouse=True)
def same_numbers_in_every_order():
    RNG.bit_generator.state = np.random.default_rng(11).bit_generator.state
    lucid.manual_seed(11)


def numbers(*shape):
    return RNG.standard_normal(shape) * 0.5


def array(t):
    return t.detach().numpy()


def one_way(name, weights, x, states, reverse):
    """One layer over (length, batch, size), step by step."""
    w_ih, w_hh, b_ih, b_hh = weights
    out = []
    for x_t in x[::-1] if reverse else x:
        zx, zh = x_t @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh
        states = EQUATIONS[name](zx, zh, *states, relu=None)
        out.append(states[0])
    return np.stack(out[::-1] if reverse else out), states


def by_hand(layer, x, states):
    name = type(layer).__name__
    finals = []
    for k in range(layer.num_layers):
        outs = []
        for d, suffix in enumerate(("", "_reverse") if layer.bidirectional else ("",)):
            names = [f"{stem}_l{k}{suffix}" for stem in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            at = k * (2 if layer.bidirectional else 1) + d
            out, after = one_way(name, [array(getattr(layer, n)) for n in names], x, [s[at] for s in states], d == 1)
            outs.append(out)
            finals.append(after)
        x = np.concatenate(outs, -1)
    return x, [np.stack(column) for column in zip(*finals, strict=True)]


def states_for(name, count, batch, size):
    return [numbers(count, batch, size) for _ in range(2 if name == "LSTM" else 1)]


def as_state(states):
    given = [lucid.tensor(s) for s in states]
    return given[0] if len(given) == 1 else tuple(given)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (1, True), (3, False), (2, True)])
@pytest.mark.parametrize("name", CLASSES)
def test_layers_by_hand(name, layers, bidirectional, batch_first):
    layer = CLASSES[name](3, 5, layers, batch_first=batch_first, bidirectional=bidirectional).double()
    x, states = numbers(4, 2, 3), states_for(name, layers * (1 + bidirectional), 2, 5)
    for given in (states, None):
        first = [np.zeros_like(s) for s in states] if given is None else given
        want, finals = by_hand(layer, x, first)
        hx = None if given is None else as_state(given)
        output, state = layer(lucid.tensor(x.swapaxes(0, 1) if batch_first else x), hx)
        np.testing.assert_allclose(array(output), want.swapaxes(0, 1) if batch_first else want, 1e-10, 1e-10)
        for a, b in zip(state if name == "LSTM" else (state,), finals, strict=True):
            np.testing.assert_allclose(array(a), b, 1e-10, 1e-10)


def operands(name, sizes, features, hidden, biases, proj=0):
    gates, out, rows = GATES[name] * hidden, proj or hidden, sizes[0]
    shapes = [(sum(sizes), features), (gates, features), (gates, out)]
    shapes += [(gates,), (gates,)] if biases else [None, None]
    shapes += [(rows, out)] + ([(rows, hidden), (proj, hidden) if proj else None] if name == "LSTM" else [])
    return [None if s is None else lucid.tensor(numbers(*s)).requires_grad_() for s in shapes]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("sizes", "features", "hidden"),
    [
        ((3, 3, 3), 2, 4),
        ((5, 3, 3, 1), 2, 4),
        ((16, 16), 64, 128),
        ((16, 9, 2), 3, 128),
        ((40, 40), 300, 64),
        ((1,), 2, 3),
    ],
)
@pytest.mark.parametrize("name", [*CLASSES, "relu", "proj", "bare"])
def test_kernels_agree_with_their_composite(name, sizes, features, hidden, reverse):
    settings = {"relu": name == "relu"} if name in ("RNN", "relu") else {}
    biases, proj = name != "bare", 2 if name == "proj" else 0
    name = {"relu": "RNN", "proj": "LSTM", "bare": "GRU"}.get(name, name)
    op = getattr(ops, name.lower())
    given = operands(name, sizes, features, hidden, biases, proj)
    leaves = [t for t in given if t is not None]
    found = []
    for run in (op, op.composite):
        outs = run(*given, sizes=sizes, reverse=reverse, **settings)
        weights = [lucid.tensor(np.cos(np.arange(o.numel())).reshape(o.shape)) for o in outs]
        each = [lucid.autograd.grad(o, leaves, w, retain_graph=True, allow_unused=True) for o, w in zip(outs, weights)]
        alone = [g for grads in each for g in grads if g is not None and np.any(g.numpy())]
        found.append([*outs, *lucid.autograd.grad(outs, leaves, weights), *alone])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-8, 1e-8)


@pytest.mark.parametrize("name", CLASSES)
def test_single_precision_is_close_to_double(name):
    layer = CLASSES[name](64, 128)
    x = numbers(20, 16, 64).astype(np.float32)
    results = {}
    for dtype in ("float32", "float64"):
        layer.to(dtype)
        layer.zero_grad()
        t = lucid.tensor(x).to(dtype).requires_grad_()
        out = layer(t)[0]
        out.square().sum().backward()
        results[dtype] = [array(out), t.grad.numpy(), *[p.grad.numpy().copy() for p in layer.parameters()]]
    for a, b in zip(results["float32"], results["float64"], strict=True):
        np.testing.assert_allclose(a, b, 2e-3, 2e-3 * np.abs(b).max())


@pytest.mark.parametrize("name", CLASSES)
def test_half_precision(name):
    layer, cell = CLASSES[name](3, 4).to("float16"), {"RNN": RNNCell, "LSTM": LSTMCell, "GRU": GRUCell}[name](3, 4)
    out, _ = layer(lucid.rand(5, 2, 3).to("float16"))
    out.sum().backward()
    assert out.dtype == lucid.float16 and layer.weight_ih_l0.grad.dtype == lucid.float16
    after = cell.to("bfloat16")(lucid.rand(2, 3).to("bfloat16"))
    assert (after[0] if name == "LSTM" else after).dtype == lucid.bfloat16


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_packed_sequences_are_each_sequence_alone(name, bidirectional):
    layer = CLASSES[name](3, 4, 2, bidirectional=bidirectional).double()
    lengths = [2, 5, 1, 3]
    sequences = [lucid.tensor(numbers(n, 3)).requires_grad_() for n in lengths]
    first = states_for(name, 4 if bidirectional else 2, 4, 4)
    packed, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False), as_state(first))
    outs = rnn.unpack_sequence(packed)
    total = sum((o * lucid.tensor(np.cos(np.arange(o.numel())).reshape(o.shape))).sum() for o in outs)
    found = lucid.autograd.grad(total, sequences)
    for i, s in enumerate(sequences):
        alone, after = layer(s, as_state([f[:, i] for f in first]))
        np.testing.assert_allclose(array(outs[i]), array(alone), 1e-10, 1e-10)
        for a, b in zip(*[x if name == "LSTM" else (x,) for x in (state, after)], strict=True):
            np.testing.assert_allclose(array(a[:, i]), array(b), 1e-10, 1e-10)
        weights = lucid.tensor(np.cos(np.arange(alone.numel())).reshape(alone.shape))
        (want,) = lucid.autograd.grad(alone, [s], weights)
        np.testing.assert_allclose(found[i].numpy(), want.numpy(), 1e-9, 1e-9)


def test_packing_and_padding_go_back_and_forth():
    padded = lucid.tensor(numbers(5, 3, 2))
    lengths = [3, 5, 2]
    packed = rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2] and packed.unsorted_indices.tolist() == [1, 0, 2]
    again, found = rnn.pad_packed_sequence(packed, padding_value=7.0)
    assert found.tolist() == lengths
    for i, n in enumerate(lengths):
        assert again[:n, i].tolist() == padded[:n, i].tolist()
        assert (again[n:, i].numpy() == 7).all()
    assert packed.double().data.dtype == lucid.float64 and packed.float().data.dtype == lucid.float32


def test_padding_on_both_sides():
    sequences = [lucid.tensor([1, 2, 3]), lucid.tensor([4])]
    assert rnn.pad_sequence(sequences).tolist() == [[1, 4], [2, 0], [3, 0]]
    assert rnn.pad_sequence(sequences, True, 9, "left").tolist() == [[1, 2, 3], [9, 9, 4]]
    assert [s.tolist() for s in rnn.unpad_sequence(rnn.pad_sequence(sequences), [3, 1])] == [[1, 2, 3], [4]]


@pytest.mark.parametrize("name", CLASSES)
def test_cells_are_single_steps(name):
    layer = CLASSES[name](3, 4).double()
    cell = {"RNN": RNNCell, "LSTM": LSTMCell, "GRU": GRUCell}[name](3, 4).double()
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x = lucid.tensor(numbers(5, 2, 3))
    state = None
    for x_t in x:
        state = cell(x_t, state)
    _, want = layer(x)
    for a, b in zip(*[s if name == "LSTM" else (s,) for s in (state, want)], strict=True):
        np.testing.assert_allclose(array(a), array(b[0]), 1e-10, 1e-10)
    alone = cell(x[0, 0])
    both = cell(x[0])
    for a, b in zip(*[s if name == "LSTM" else (s,) for s in (alone, both)], strict=True):
        np.testing.assert_allclose(array(a), array(b[0]), 1e-12, 1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_derivatives_of_layers(name):
    layer = CLASSES[name](2, 2, bidirectional=True).double()
    x = lucid.tensor(numbers(3, 2, 2)).requires_grad_()
    assert gradcheck(lambda x: layer(x), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: layer(x)[0], (x,))


@pytest.mark.parametrize("name", CLASSES)
def test_layers_under_vmap(name):
    layer = CLASSES[name](3, 4, 2, bidirectional=True).double()
    x = numbers(5, 6, 2, 3)

    def loss(x):
        return layer(x)[0].square().sum()

    found = func.vmap(lambda x: layer(x)[0])(lucid.tensor(x))
    gradients = func.vmap(func.grad(loss))(lucid.tensor(x))
    for i in range(5):
        np.testing.assert_allclose(array(found[i]), array(layer(lucid.tensor(x[i]))[0]), 1e-10, 1e-10)
        np.testing.assert_allclose(array(gradients[i]), array(func.grad(loss)(lucid.tensor(x[i]))), 1e-9, 1e-9)


def test_dropout_acts_between_layers_in_training():
    layer = LSTM(3, 8, 2, dropout=0.5)
    x = lucid.rand(4, 2, 3)
    lucid.manual_seed(0)
    first = array(layer(x)[0])
    assert not np.allclose(first, array(layer(x)[0]))
    lucid.manual_seed(0)
    np.testing.assert_array_equal(first, array(layer(x)[0]))
    layer.eval()
    np.testing.assert_array_equal(array(layer(x)[0]), array(layer(x)[0]))
    layer.train()
    layer.dropout = 1.0
    nothing, _ = layer(x)
    alone = LSTM(8, 8)
    alone.load_state_dict({k.replace("_l1", "_l0"): v for k, v in layer.state_dict().items() if k.endswith("_l1")})
    np.testing.assert_allclose(array(nothing), array(alone(lucid.zeros(4, 2, 8))[0]), 1e-6, 1e-6)


def test_no_dropout_behind_the_last_layer():
    with pytest.warns(UserWarning, match="only one"):
        layer = GRU(3, 4, dropout=0.5)
    x = lucid.rand(4, 2, 3)
    np.testing.assert_array_equal(array(layer(x)[0]), array(layer(x)[0]))


def test_a_result_that_is_kept_may_not_be_overwritten():
    for layer in (RNN(3, 4), LSTM(3, 4), GRU(3, 4)):
        out, _ = layer(lucid.rand(5, 3).requires_grad_())
        out.mul_(2.0)
        with pytest.raises(RuntimeError, match="overwritten"):
            out.sum().backward()


def test_backward_twice_gives_the_same():
    layer = LSTM(3, 4).double()
    x = lucid.tensor(numbers(5, 2, 3)).requires_grad_()
    out, _ = layer(x)
    first = lucid.autograd.grad(out.sum(), [x], retain_graph=True)[0].numpy().copy()
    np.testing.assert_array_equal(lucid.autograd.grad(out.sum(), [x])[0].numpy(), first)


def test_only_the_last_state_is_used():
    layer = LSTM(3, 4).double()
    x = lucid.tensor(numbers(5, 2, 3)).requires_grad_()
    assert gradcheck(lambda x: layer(x)[1][1], (x,))
    assert gradcheck(lambda x: layer(x)[1][0], (x,))


def test_an_lstm_learns_to_count():
    lucid.manual_seed(0)
    layer = LSTM(1, 8, batch_first=True)
    x = lucid.tensor(RNG.integers(0, 2, (16, 6, 1)).astype(np.float32))
    goal = x.sum(1) / 6
    losses = []
    for _ in range(60):
        loss = (layer(x)[0][:, -1, :1] - goal).square().mean()
        layer.zero_grad()
        loss.backward()
        with lucid.no_grad():
            for p in layer.parameters():
                p -= 0.5 * p.grad
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("name", CLASSES)
def test_a_batch_may_be_empty(name):
    layer = CLASSES[name](3, 4)
    x = lucid.ones(5, 0, 3).requires_grad_()
    out, _ = layer(x)
    out.sum().backward()
    assert out.shape == (5, 0, 4) and x.grad.shape == (5, 0, 3) and not layer.weight_hh_l0.grad.numpy().any()


def test_initial_weights_and_names():
    layer = LSTM(3, 16, 2, bidirectional=True, proj_size=5)
    assert np.abs(array(layer.weight_hh_l1_reverse)).max() <= 0.25
    assert layer.weight_ih_l1.shape == (64, 10) and layer.weight_hr_l0.shape == (5, 16)
    assert len(layer.all_weights) == 4 and len(layer.all_weights[0]) == 5
    assert layer.flatten_parameters() is None
    assert repr(LSTM(3, 4, num_layers=2, proj_size=2)) == "LSTM(3, 4, proj_size=2, num_layers=2)"


PACKED = rnn.PackedSequence(lucid.ones(3, 2), lucid.tensor([2, 1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RNN(3, 4)(lucid.ones(2, 2, 5)), RuntimeError, "3 features"),
        (lambda: RNN(3, 4)(lucid.ones(3)), ValueError, "3 dimensions"),
        (lambda: RNN(3, 4)(lucid.ones(0, 2, 3)), RuntimeError, "at least one step"),
        (lambda: RNN(3, 4)(PACKED), RuntimeError, "3 features"),
        (lambda: RNN(3, 4)(lucid.ones(5, 2, 3), lucid.ones(1, 3, 4)), RuntimeError, "first state"),
        (lambda: LSTM(3, 4)(lucid.ones(5, 2, 3), lucid.ones(1, 2, 4)), RuntimeError, "first state"),
        (lambda: LSTM(3, 4, proj_size=4), ValueError, "proj_size"),
        (lambda: GRU(3, 0), ValueError, "hidden_size"),
        (lambda: GRU(3, 4, num_layers=0), ValueError, "num_layers"),
        (lambda: GRU(3, 4, dropout=2.0), ValueError, "dropout"),
        (lambda: RNN(3, 4, nonlinearity="sine"), ValueError, "sine"),
        (lambda: RNN(3, 4)(lucid.ones(5, 2, 3).double()), TypeError, "one floating-point type"),
        (lambda: GRUCell(3, 4)(lucid.ones(2, 5)), RuntimeError, r"\(batch, 3\)"),
        (lambda: GRUCell(3, 4)(lucid.ones(2, 3), lucid.ones(3, 4)), RuntimeError, "state"),
        (lambda: LSTMCell(3, 4)(lucid.ones(2, 3), lucid.ones(2, 4)), RuntimeError, "state"),
        (lambda: rnn.pack_padded_sequence(lucid.ones(3, 2), [1, 3]), RuntimeError, "enforce_sorted=False"),
        (lambda: rnn.pack_padded_sequence(lucid.ones(3, 2), [4, 3]), RuntimeError, "do not fit"),
        (lambda: rnn.pack_padded_sequence(lucid.ones(3, 2), [3]), RuntimeError, "do not fit"),
        (lambda: rnn.pack_padded_sequence(lucid.ones(3, 2), [3, 0]), RuntimeError, "at least one element"),
        (lambda: rnn.pad_packed_sequence(PACKED, total_length=1), ValueError, "total_length"),
        (lambda: rnn.pad_sequence([]), RuntimeError, "at least one"),
        (lambda: rnn.pad_sequence([lucid.ones(2)], padding_side="top"), ValueError, "padding_side"),
        (lambda: rnn.unpad_sequence(lucid.ones(3, 2), [3]), RuntimeError, "1 lengths"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
