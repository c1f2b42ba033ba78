"""Writing into tensors: gradients through in-place operations and views, version counters, refusals."""

import inspect

import numpy as np
import pytest

import lucid


def leaves():
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = lucid.tensor([4.0, 5.0, 6.0], requires_grad=True)
    return x, y


def line_here():
    return inspect.currentframe().f_back.f_lineno


# --- gradients, with expected values taken from PyTorch -------------------------------------------


def add_tensor(x, y):
    z = x * 2
    z.add_(y)
    return z * z


def mul_by_tensor(x, y):
    z = x * 2
    z.mul_(y)
    return z


def mul_of_constant_by_tensor(x, y):
    z = lucid.tensor([1.0, 2.0, 3.0])
    z.mul_(y)
    return z


def div_by_tensor(x, y):
    z = x * 4
    z.div_(y - 3)
    return z


def sub_used_twice(x, y):
    z = x * y
    z.sub_(x)
    return z * y


def pow_scalar(x, y):
    z = x * 2
    z.pow_(3)
    return z


def square_then_mul(x, y):
    z = x * 1
    z.square_()
    return z * y


def clamp(x, y):
    z = x * 2
    z.clamp_(3, 5)
    return z * y


def clamp_at_the_bounds(x, y):
    z = x * 1
    z.clamp_(1, 3)
    return z * y


def relu(x, y):
    z = x - 2
    z.relu_()
    return z + y


def exp_then_use(x, y):
    z = x * 0
    z.exp_()
    return z * y


def copy_from_leaf(x, y):
    z = x * y
    z.copy_(y)
    return z * x


def copy_broadcasts(x, y):
    z = lucid.zeros(2, 3)
    z.copy_(x)
    return z * y


def copy_converts_the_type(x, y):
    z = lucid.zeros(3, dtype=lucid.float64)
    z.copy_(x)
    return (z * z).float() * y


def zero(x, y):
    z = x * y
    z.zero_()
    return z * y


def zero_in_a_view(x, y):
    z = x * y
    z[:2].zero_()
    return z


def fill_with_number(x, y):
    z = x * y
    z[1:].fill_(7.0)
    return z * y


def fill_with_tensor(x, y):
    z = x * y
    z[1].fill_(y[0])
    return z


def setitem_integer(x, y):
    z = x * y
    z[0] = y[2]
    return z


def setitem_slice(x, y):
    z = x * y
    z[1:] = x[:2]
    return z * z


def setitem_mask(x, y):
    z = x * y
    z[z > 6] = x[0]
    return z * y


def setitem_integer_list(x, y):
    z = x * y
    z[[0, 2]] = y[:2]
    return z * x


def setitem_ellipsis(x, y):
    z = x * y
    z[...] = 2 * y
    return z * x


def setitem_column(x, y):
    z = lucid.zeros(3, 2)
    z[:, 1] = x
    z[0, :] = y[1]
    return z * z


def setitem_into_constant(x, y):
    z = lucid.zeros(4)
    z[1:] = x * y
    return z * z


def swap_elements(x, y):
    z = x * 1
    a = z[0].clone()
    z[0] = z[2]
    z[2] = a
    return z * y


def augmented_operators(x, y):
    z = x * 1
    z += y
    z -= 2
    z *= 3
    z /= 2
    return z * x


def augmented_setitem(x, y):
    z = x * y
    z[0] += x[1]
    z[1:] *= 2
    return z * z


def view_made_before_the_write(x, y):
    z = x * 1
    v = z[:2]
    z.mul_(y)
    return v * v


def view_made_after_the_write(x, y):
    z = x * 1
    z.mul_(y)
    return z[:2] * z[1:]


def write_to_view_shows_in_base(x, y):
    z = x * 1
    z[1:].mul_(y[1:])
    return z * z


def write_to_view_shows_in_sibling(x, y):
    z = x * 1
    a, b = z[:2], z[1:]
    a.mul_(2)
    return b * b


def two_overlapping_views(x, y):
    z = x * 1
    a, b = z[:2], z[1:]
    a.mul_(2)
    b.mul_(y[:2])
    return a.sum() + z.sum()


def chain_of_views(x, y):
    z = (x.reshape(3, 1) * y).reshape(9)
    v = z.view(3, 3).t()[1][:2]
    v.mul_(x[1:])
    return z * z


def write_in_the_middle_of_a_chain(x, y):
    z = x.reshape(3, 1) * y
    row = z[1]
    part = row[1:]
    row.mul_(2)
    part.add_(x[:2])
    return z * z


def chain_made_before_base_is_written(x, y):
    z = x.reshape(3, 1) * y
    part = z.t()[0][1:]
    z.mul_(2)
    return part * x[1:]


def diagonal(x, y):
    z = x.reshape(3, 1) * y
    z.diagonal().mul_(2)
    return z


def transposed_row(x, y):
    z = x.reshape(3, 1) * y
    z.t()[0].mul_(x)
    return z * z


def base_did_not_require_grad(x, y):
    b = lucid.zeros(3)
    v = b[:2]
    v.add_(x[:2])
    return b * y


def base_and_older_view_did_not_require_grad(x, y):
    b = lucid.ones(3)
    old = b[1:]
    b[:2].mul_(x[:2])
    return old * y[1:]


def view_of_constant_after_base_is_written(x, y):
    b = lucid.ones(3)
    v = b[:2]
    b.mul_(x)
    return v * y[:2]


def fill_rows_of_constant(x, y):
    z = lucid.zeros(2, 3)
    z[0] += x
    z[1] += y
    return z[0] * z[1]


def reshape_copy_is_no_view(x, y):
    z = x.reshape(3, 1) * y
    r = z.t().reshape(9)  # a copy: writes to it stay away from z
    r.mul_(0)
    return z.sum() + r.sum()


def unsqueezed(x, y):
    z = x * 1
    z.unsqueeze(0).mul_(y)
    return z * z


def repeated_writes(x, y):
    z = x * 1
    for k in range(1, 4):
        z.mul_(k)
        z.add_(y)
    return z


def leaf_value_used_before_the_write(x, y):
    z = x * 1
    w = z * 3  # saves nothing of z
    z.add_(y)
    return w * z


CASES = [
    (add_tensor, [24.0, 36.0, 48.0], [12.0, 18.0, 24.0]),
    (mul_by_tensor, [8.0, 10.0, 12.0], [2.0, 4.0, 6.0]),
    (mul_of_constant_by_tensor, None, [1.0, 2.0, 3.0]),
    (div_by_tensor, [4.0, 2.0, 1.333333], [-4.0, -2.0, -1.333333]),
    (sub_used_twice, [12.0, 20.0, 30.0], [7.0, 18.0, 33.0]),
    (pow_scalar, [24.0, 96.0, 216.0], None),
    (square_then_mul, [8.0, 20.0, 36.0], [1.0, 4.0, 9.0]),
    (clamp, [0.0, 10.0, 0.0], [3.0, 4.0, 5.0]),
    (clamp_at_the_bounds, [4.0, 5.0, 6.0], [1.0, 2.0, 3.0]),
    (relu, [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]),
    (exp_then_use, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    (copy_from_leaf, [4.0, 5.0, 6.0], [1.0, 2.0, 3.0]),
    (copy_broadcasts, [8.0, 10.0, 12.0], [2.0, 4.0, 6.0]),
    (copy_converts_the_type, [8.0, 20.0, 36.0], [1.0, 4.0, 9.0]),
    (zero, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    (zero_in_a_view, [0.0, 0.0, 6.0], [0.0, 0.0, 3.0]),
    (fill_with_number, [16.0, 0.0, 0.0], [8.0, 7.0, 7.0]),
    (fill_with_tensor, [4.0, 0.0, 6.0], [2.0, 0.0, 3.0]),
    (setitem_integer, [0.0, 5.0, 6.0], [0.0, 2.0, 4.0]),
    (setitem_slice, [34.0, 4.0, 0.0], [8.0, 0.0, 0.0]),
    (setitem_mask, [27.0, 0.0, 0.0], [8.0, 1.0, 1.0]),
    (setitem_integer_list, [4.0, 20.0, 5.0], [1.0, 7.0, 0.0]),
    (setitem_ellipsis, [8.0, 10.0, 12.0], [2.0, 4.0, 6.0]),
    (setitem_column, [0.0, 4.0, 6.0], [0.0, 20.0, 0.0]),
    (setitem_into_constant, [32.0, 100.0, 216.0], [8.0, 40.0, 108.0]),
    (swap_elements, [6.0, 5.0, 4.0], [3.0, 2.0, 1.0]),
    (augmented_operators, [6.0, 10.5, 15.0], [1.5, 3.0, 4.5]),
    (augmented_setitem, [48.0, 412.0, 864.0], [12.0, 160.0, 432.0]),
    (view_made_before_the_write, [32.0, 100.0, 0.0], [8.0, 40.0, 0.0]),
    (view_made_after_the_write, [40.0, 110.0, 60.0], [10.0, 44.0, 30.0]),
    (write_to_view_shows_in_base, [2.0, 100.0, 216.0], [0.0, 40.0, 108.0]),
    (write_to_view_shows_in_sibling, [0.0, 16.0, 6.0], None),
    (two_overlapping_views, [4.0, 16.0, 5.0], [8.0, 3.0, 0.0]),
    (chain_of_views, [304.0, 1208.0, 1062.0], [112.0, 490.0, 168.0]),
    (write_in_the_middle_of_a_chain, [196.0, 1352.0, 462.0], [208.0, 268.0, 328.0]),
    (chain_made_before_base_is_written, [0.0, 32.0, 48.0], [26.0, 0.0, 0.0]),
    (diagonal, [19.0, 20.0, 21.0], [7.0, 8.0, 9.0]),
    (transposed_row, [186.0, 756.0, 2094.0], [784.0, 140.0, 168.0]),
    (base_did_not_require_grad, [4.0, 5.0, 0.0], [1.0, 2.0, 0.0]),
    (base_and_older_view_did_not_require_grad, [0.0, 5.0, 0.0], [0.0, 2.0, 1.0]),
    (view_of_constant_after_base_is_written, [4.0, 5.0, 0.0], [1.0, 2.0, 0.0]),
    (fill_rows_of_constant, [4.0, 5.0, 6.0], [1.0, 2.0, 3.0]),
    (reshape_copy_is_no_view, [15.0, 15.0, 15.0], [6.0, 6.0, 6.0]),
    (unsqueezed, [32.0, 100.0, 216.0], [8.0, 40.0, 108.0]),
    (repeated_writes, [6.0, 6.0, 6.0], [10.0, 10.0, 10.0]),
    (leaf_value_used_before_the_write, [18.0, 27.0, 36.0], [3.0, 6.0, 9.0]),
]


@pytest.mark.parametrize(("run", "grad_x", "grad_y"), CASES, ids=[c[0].__name__ for c in CASES])
def test_gradient_agrees_with_pytorch(run, grad_x, grad_y):
    x, y = leaves()
    run(x, y).sum().backward()
    for leaf, expected in ((x, grad_x), (y, grad_y)):
        if expected is None:
            assert leaf.grad is None or not leaf.grad.numpy().any()
        else:
            np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(("run", "grad_x", "grad_y"), CASES, ids=[c[0].__name__ for c in CASES])
def test_gradient_is_the_same_with_create_graph(run, grad_x, grad_y):
    x, y = leaves()
    found = lucid.autograd.grad(run(x, y).sum(), (x, y), create_graph=True, materialize_grads=True)
    for gradient, expected in zip(found, (grad_x, grad_y), strict=True):
        np.testing.assert_allclose(gradient.numpy(), 0 if expected is None else expected, rtol=1e-6)


def test_second_derivative_through_writes():
    x, _ = leaves()
    z = x * 1
    z[1:].mul_(z[:2].clone())
    z.pow_(2)
    (g,) = lucid.autograd.grad(z.sum(), [x], create_graph=True)  # x0² + (x0 x1)² + (x1 x2)²
    np.testing.assert_allclose(g.tolist(), [10.0, 40.0, 24.0])
    h = lucid.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.tolist(), [18.0, 52.0, 32.0])


def test_write_at_duplicate_places_gives_the_gradient_to_the_last():
    y = lucid.tensor([4.0, 5.0], requires_grad=True)
    z = lucid.zeros(3)
    z[[0, 0]] = y
    z.sum().backward()
    assert z.tolist() == [5.0, 0.0, 0.0]
    assert y.grad.tolist() == [0.0, 1.0]


def test_write_with_the_tensor_itself_as_operand_is_right_or_refused():
    x, _ = leaves()
    z = x * 2
    z.mul_(z)
    try:
        z.sum().backward()
    except RuntimeError as error:
        assert "overwritten" in str(error)
    else:
        np.testing.assert_allclose(x.grad.tolist(), [8.0, 16.0, 24.0])


def test_assignment_between_overlapping_parts_reads_before_it_writes():
    x, y = leaves()
    z = x * 1
    z[1:] = z[:-1]
    assert z.tolist() == [1.0, 1.0, 2.0]
    (z * y).sum().backward()
    assert x.grad.tolist() == [9.0, 6.0, 0.0]


def test_in_place_methods_return_the_same_tensor():
    z = lucid.ones(3)
    assert z.add_(1) is z and z.zero_() is z and z.copy_(lucid.ones(3)) is z and z.fill_(2) is z and z.clamp_(0, 1) is z


def test_augmented_assignment_keeps_identity():
    z = same = lucid.ones(3)
    z += 1
    z *= 2
    assert z is same and same.tolist() == [4.0, 4.0, 4.0]


def test_write_turns_a_constant_into_part_of_the_graph():
    x, _ = leaves()
    z = lucid.zeros(3)
    assert z.is_leaf
    z.add_(x)
    assert z.requires_grad and not z.is_leaf and z.grad_fn is not None


def test_stale_view_answers_for_its_present_history():
    x, _ = leaves()
    b = lucid.zeros(3)
    v = b[:2]
    b.add_(x)
    assert not v.is_leaf
    assert v.requires_grad
    assert v.grad_fn is not None


def test_writing_a_constant_over_everything_leaves_a_zero_gradient():
    x, _ = leaves()
    z = x * 2
    z.zero_()
    assert z.requires_grad
    z.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


# --- version counters -----------------------------------------------------------------------------


def test_version_counts_writes():
    z = lucid.zeros(3)
    assert z._version == 0
    z.add_(1)
    z[0] = 2
    z += 1
    assert z._version == 3


def test_version_is_shared_by_views_and_detached_tensors():
    z = lucid.zeros(2, 3)
    row, column, plain = z[0], z.t()[0], z.detach()
    row.add_(1)
    plain.mul_(2)
    assert z._version == row._version == column._version == plain._version == 2


def test_version_of_a_clone_is_its_own():
    z = lucid.zeros(3)
    c = z.clone()
    z.add_(1)
    assert (z._version, c._version) == (1, 0)


def test_setting_data_does_not_touch_the_other_tensor():
    a, b = lucid.zeros(3), lucid.ones(3)
    a.data = b
    assert a.tolist() == [1.0, 1.0, 1.0] and b._version == 0


# --- saved values that were overwritten -----------------------------------------------------------


def overwritten(write):
    x, y = leaves()
    z = x * 1
    saved_line = line_here() + 1
    loss = (z * y).sum()
    write(z)
    return loss, saved_line


@pytest.mark.parametrize(
    "write",
    [
        lambda z: z.add_(1),
        lambda z: z.zero_(),
        lambda z: z[0].mul_(2),
        lambda z: z.view(3, 1)[1:].fill_(0),
        lambda z: z.__setitem__(slice(None), 0.0),
        lambda z: z.__setitem__([0, 1], 0.0),
        lambda z: z.__iadd__(1),
        lambda z: z.detach().add_(1),
        lambda z: z.detach()[0].add_(1),
        lambda z: z.copy_(lucid.ones(3)),
    ],
)
def test_overwritten_saved_value_is_an_error(write):
    loss, _ = overwritten(write)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_overwritten_error_shows_both_lines():
    x, y = leaves()
    z = x * 1
    loss, saved_line = (z * y).sum(), line_here()
    z.add_(1)
    written_line = line_here() - 1
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    message = str(error.value)
    assert f"{__file__}:{saved_line}" in message
    assert f"{__file__}:{written_line}" in message
    assert "mul" in message and "add_" in message


def test_overwritten_error_under_no_grad_write():
    x, y = leaves()
    loss = (x * y).sum()
    with lucid.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_overwritten_output_is_an_error():
    x, _ = leaves()
    z = x.exp()
    loss = z.sum()
    z.detach().mul_(2)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_overwritten_value_is_an_error_with_create_graph_too():
    x, y = leaves()
    z = x * 1
    loss = (z * y).sum()
    z.add_(1)
    with pytest.raises(RuntimeError, match="overwritten"):
        lucid.autograd.grad(loss, (x, y), create_graph=True)


def test_an_overwritten_value_that_only_an_unwanted_gradient_needs_is_fine():
    x, y = leaves()
    z = x * 1
    loss = (z * y).sum()
    z.add_(1)
    assert lucid.equal(lucid.autograd.grad(loss, x), y)


def test_write_to_a_value_that_nothing_saved_is_fine():
    x, y = leaves()
    z = x * 1
    w = z + y
    z.mul_(10)
    w.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_write_to_the_unsaved_operand_is_fine():
    x, _ = leaves()
    c = lucid.tensor([1.0, 2.0, 3.0])
    z = x * 1
    w = z * c  # only c is saved: it needs no gradient
    z.mul_(10)
    w.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]


def test_write_to_a_saved_constant_is_an_error():
    x, _ = leaves()
    c = lucid.tensor([1.0, 2.0, 3.0])
    w = x * c
    c.zero_()
    with pytest.raises(RuntimeError, match="overwritten"):
        w.sum().backward()


def test_write_to_another_part_of_the_same_memory_counts_as_overwritten():
    x, y = leaves()
    z = x * 1
    loss = (z[:1] * y[:1]).sum()
    z[2] = 0.0
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_replacing_data_after_saving_is_noticed():
    x, y = leaves()
    loss = (x * y).sum()
    x.data = lucid.zeros(3)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "overwritten" in str(error)
    else:
        assert y.grad.tolist() == [1.0, 2.0, 3.0]


def test_numpy_write_to_shared_memory_is_noticed():
    array = np.array([1.0, 2.0, 3.0], np.float32)
    _, y = leaves()
    loss = (lucid.from_numpy(array) * y).sum()
    array[1] = 100
    with pytest.raises(RuntimeError, match="NumPy"):
        loss.backward()


def test_numpy_write_through_numpy_method_is_noticed():
    c = lucid.tensor([1.0, 2.0, 3.0])
    array = c.numpy()
    _, y = leaves()
    loss = (c * y).sum()
    array[:] = 0
    with pytest.raises(RuntimeError, match="NumPy"):
        loss.backward()


def test_numpy_write_to_memory_exposed_after_saving_is_noticed():
    c = lucid.tensor([1.0, 2.0, 3.0])
    _, y = leaves()
    loss = (c * y).sum()
    c.numpy()[:] = 0
    with pytest.raises(RuntimeError, match="NumPy"):
        loss.backward()


# --- what may not be written ----------------------------------------------------------------------

WRITES = {
    "add_": lambda t: t.add_(1),
    "mul_": lambda t: t.mul_(2),
    "copy_": lambda t: t.copy_(lucid.zeros(t.shape)),
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(3),
    "clamp_": lambda t: t.clamp_(0, 1),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "setitem_list": lambda t: t.__setitem__([0], 5.0),
    "iadd": lambda t: t.__iadd__(1),
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@every_write
def test_leaf_that_requires_grad_refuses(write):
    x, _ = leaves()
    with pytest.raises(RuntimeError, match="leaf"):
        write(x)
    assert x.tolist() == [1.0, 2.0, 3.0] and x._version == 0 and x.is_leaf and x.grad_fn is None


@every_write
def test_view_of_leaf_that_requires_grad_refuses(write):
    x, _ = leaves()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        write(x[1:])
    with pytest.raises(RuntimeError, match="view of a leaf"):
        write(x.view(3, 1)[1:].t())
    assert x.tolist() == [1.0, 2.0, 3.0] and x._version == 0


def test_view_that_is_a_leaf_of_its_own_refuses():
    base = lucid.ones(3)
    v = base[:2].requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        v.mul_(2)
    with pytest.raises(RuntimeError, match="leaf"):
        v[:1].mul_(2)
    assert base.tolist() == [1.0, 1.0, 1.0] and base._version == 0 and not base.requires_grad
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0]


@every_write
def test_leaf_update_under_no_grad_works(write):
    x, _ = leaves()
    with lucid.no_grad():
        write(x)
        write(x[1:])
    assert x.is_leaf and x.requires_grad and x._version == 2
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@every_write
@pytest.mark.parametrize("parts", [lambda t: t.split(1), lambda t: t.unbind(0), lambda t: t.chunk(2), list])
def test_one_of_many_views_refuses(parts, write):
    x, _ = leaves()
    z = x.reshape(3, 1) * 1
    part = parts(z)[0]
    with pytest.raises(RuntimeError, match="several views"):
        write(part)
    assert z.tolist() == [[1.0], [2.0], [3.0]] and z._version == 0


def test_view_of_one_of_many_refuses():
    x, _ = leaves()
    z = x * 1
    with pytest.raises(RuntimeError, match="several views"):
        z.split(2)[0][1:].add_(1)


def test_one_of_many_of_a_constant_can_be_written():
    z = lucid.zeros(4)
    z.chunk(2)[1].add_(1)
    assert z.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_one_of_many_can_be_written_under_no_grad():
    x, _ = leaves()
    z = x * 1
    with lucid.no_grad():
        z.unbind()[0].fill_(9)
    assert z.tolist() == [9.0, 2.0, 3.0]


@pytest.mark.parametrize("inside", [True, False])
def test_view_of_a_view_made_under_no_grad_refuses(inside):
    y = lucid.ones(4, requires_grad=True) * 2
    with lucid.no_grad():
        view = y[:2]
        part = view[:1]
    if not inside:
        part = view[:1]
    before, version = y.tolist(), y._version
    for write in (lambda: part.mul_(5), lambda: part.__setitem__(0, 7.0), lambda: part.copy_(lucid.ones(1))):
        with pytest.raises(RuntimeError, match="no_grad"):
            write()
    assert y.tolist() == before and y._version == version
    with lucid.no_grad():
        part.mul_(5)
    assert y.tolist() == [10, 2, 2, 2]


def test_view_made_under_no_grad_refuses():
    x, _ = leaves()
    z = x * 1
    with lucid.no_grad():
        v = z[:2]
    with pytest.raises(RuntimeError, match="no_grad"):
        v.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad"):
        v.mul_(x[:2])
    assert z.tolist() == [1.0, 2.0, 3.0] and z._version == 0


@pytest.mark.parametrize("write", [lambda v: v.add_(1), lambda v: v.__setitem__(0, 5.0), lambda v: v.fill_(2)])
def test_view_that_is_older_than_the_leaf_refuses(write):
    x = lucid.ones(3)
    view = x[:2]
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        write(view)
    assert x.tolist() == [1, 1, 1]
    with lucid.no_grad():
        write(view)


def test_parts_made_under_no_grad_refuse():
    y = lucid.ones(4, requires_grad=True) * 2
    with lucid.no_grad():
        part = y.chunk(2)[0]
    for target in (part, part[:1]):
        with pytest.raises(RuntimeError, match="no_grad"):
            target.mul_(5)
    assert y.tolist() == [2, 2, 2, 2]


def test_view_made_under_no_grad_can_be_written_under_no_grad():
    x, _ = leaves()
    z = x * 1
    with lucid.no_grad():
        z[:2].mul_(2)
    assert z.tolist() == [2.0, 4.0, 3.0]


@every_write
def test_expanded_tensor_refuses(write):
    z = lucid.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="expanded"):
        write(z)
    assert z.tolist() == [1.0, 1.0, 1.0] and z._version == 0


def test_expanded_tensor_refuses_under_no_grad_and_when_recorded():
    x, _ = leaves()
    z = (x * 1)[:1].expand(3)
    with pytest.raises(RuntimeError, match="expanded"):
        z.add_(1)
    with lucid.no_grad(), pytest.raises(RuntimeError, match="expanded"):
        z.add_(1)


def test_expand_to_the_same_shape_can_be_written():
    z = lucid.zeros(3)
    z.expand(3).add_(1)
    assert z.tolist() == [1.0, 1.0, 1.0]


def test_tensor_over_read_only_numpy_memory_refuses():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        lucid.from_numpy(array).add_(1)


# --- failed writes leave no trace -----------------------------------------------------------------

FAILURES = {
    "shape": lambda t: t.add_(lucid.ones(4)),
    "grows": lambda t: t.add_(lucid.ones(2, 3)),
    "float into int": lambda t: lucid.ones(3, dtype=lucid.int64).add_(t),
    "complex": lambda t: t.mul_(1j),
    "copy shape": lambda t: t.copy_(lucid.ones(2)),
    "copy grows": lambda t: t.copy_(lucid.ones(2, 3)),
    "fill shape": lambda t: t.fill_(lucid.ones(2)),
    "fill complex": lambda t: t.fill_(1j),
    "setitem shape": lambda t: t.__setitem__(slice(0, 2), lucid.ones(3)),
    "setitem range": lambda t: t.__setitem__(7, 1.0),
    "setitem list range": lambda t: t.__setitem__([0, 7], 1.0),
    "setitem list shape": lambda t: t.__setitem__([0, 1], lucid.ones(3)),
    "setitem text": lambda t: t.__setitem__(0, "a"),
    "setitem complex": lambda t: t.__setitem__(0, lucid.tensor(1j)),
    "mask": lambda t: t.__setitem__(lucid.tensor([True, False]), 1.0),
    "operand": lambda t: t.add_("a"),
    "None": lambda t: t.mul_(None),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_failed_write_leaves_the_tensor_unchanged(fail, recorded):
    x, _ = leaves()
    z = x * 1 if recorded else lucid.tensor([1.0, 2.0, 3.0])
    node = z.grad_fn
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)):
        fail(z)
    assert z.tolist() == [1.0, 2.0, 3.0]
    assert z._version == 0
    assert z.grad_fn is node


def test_integer_tensor_refuses_floats_and_takes_integers():
    z = lucid.tensor([1, 2, 3])
    with pytest.raises(RuntimeError):
        z.add_(1.5)
    with pytest.raises(RuntimeError):
        z.div_(2)
    z.add_(1)
    assert z.tolist() == [2, 3, 4] and z.dtype is lucid.int64


def test_in_place_result_keeps_the_narrow_type():
    z = lucid.ones(2, dtype=lucid.float16)
    z.add_(lucid.ones(2, dtype=lucid.float64))
    z.mul_(3)
    assert z.dtype is lucid.float16 and z.tolist() == [6.0, 6.0]


# --- views ----------------------------------------------------------------------------------------


def test_view_knows_its_base():
    z = lucid.zeros(2, 3)
    v = z.t()[1:]
    assert v.is_view() and v._base is z
    assert not z.is_view() and z._base is None
    assert not z.clone().is_view() and not z.detach().is_view()


def test_views_share_memory_both_ways():
    z = lucid.zeros(2, 3)
    z.t()[0].fill_(1)
    v = z[:, 2]
    z.add_(1)
    assert z.tolist() == [[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    assert v.tolist() == [1.0, 1.0]


def test_long_chain_of_views_can_be_written_in_linear_time():
    x, y = leaves()
    v = z = x * 1
    for _ in range(60):
        v = v.view(3)
    v.mul_(2)
    (z * y).sum().backward()
    assert x.grad.tolist() == [8.0, 10.0, 12.0]


def test_very_long_chain_of_views_needs_no_recursion():
    x, _ = leaves()
    v = z = x * 1
    for _ in range(5000):
        v = v.view(3)
    assert v._base is z
    v.add_(1)
    z.add_(1)
    assert v.requires_grad
    v.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_many_writes_through_one_view():
    x, _ = leaves()
    z = x * 1
    v = z[:2]
    for _ in range(3000):
        v.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_detached_tensor_shares_memory_but_no_history():
    x, _ = leaves()
    z = x * 1
    d = z.detach()
    d.add_(1)
    assert z.tolist() == [2.0, 3.0, 4.0]
    assert not d.requires_grad
    z.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_writing_history_into_a_detached_tensor_stays_there():
    x, y = leaves()
    z = x * 1
    d = z.detach()
    d.add_(y)
    assert d.requires_grad
    lucid.autograd.backward([d.sum(), z.sum()])
    assert x.grad.tolist() == [1.0, 1.0, 1.0] and y.grad.tolist() == [1.0, 1.0, 1.0]


def test_retain_grad_follows_the_tensor_through_a_write():
    x, _ = leaves()
    z = x * 2
    z.retain_grad()
    z.mul_(3)
    assert z.retains_grad
    z.sum().backward()
    assert z.grad.tolist() == [1.0, 1.0, 1.0]
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_hook_stays_with_the_value_it_was_registered_on():
    x, _ = leaves()
    z = x * 2
    seen = []
    z.register_hook(lambda g: seen.append(g.tolist()))
    z.mul_(3)
    z.register_hook(lambda g: seen.append(g.tolist()))
    z.sum().backward()
    assert seen == [[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]


def test_detach_in_place_makes_a_leaf():
    x, _ = leaves()
    z = x * 2
    z.detach_()
    assert z.is_leaf and not z.requires_grad
    with pytest.raises(RuntimeError, match="view"):
        (x * 2)[0].detach_()


def test_a_cotangent_in_another_order_of_memory():
    """Views of the base and of its cotangent must show memory, whatever order that is in."""
    x = lucid.tensor([1.1, 0.7, -0.4], dtype=lucid.float64, requires_grad=True)
    y = lucid.zeros(2, 3, dtype=lucid.float64)
    flipped = y.t()
    flipped[:, 1] = x * x
    y.view(6)[5] = x[0].exp()
    flipped[2].sin().sum().backward()
    expected = [float(x[0].exp() * x[0].exp().cos()), 0.0, 0.0]
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_windows_are_views_of_what_they_show() -> None:
    leaf = lucid.ones(6, requires_grad=True)
    x = leaf * 1
    square = x * x
    x[1:].unfold(0, 2, 2).mul_(10.0)
    with pytest.raises(RuntimeError, match="overwritten"):
        square.sum().backward()
    x.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [1, 10, 10, 10, 10, 1])


def test_ravel_is_a_view_of_its_own():
    """So a tensor of one dimension that is detached in place leaves it as it was."""
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    flat = y.ravel()
    assert flat is not y
    y.detach_()
    (gradient,) = lucid.autograd.grad((flat * flat).sum(), [x])
    assert gradient.tolist() == [2.0, 4.0]
