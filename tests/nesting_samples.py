"""Functions from R^3 to R that use all that programs use, each with its formula in NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from nestings import Function, Nesting, tensor

import lucid
from lucid import autograd, func

C = np.array([0.3, -1.2, 0.8])
W = np.array([[0.5, -0.3, 0.8], [1.1, 0.2, -0.4], [0.7, 0.6, -0.9]])
MASK = np.array([True, False, True])


def row_sum(a: Any) -> Any:
    return a.sum(-1)


# Closures, broadcasting, indexing.


def elementwise(x):
    return (x**3 * x.sin()).sum() + x.exp().prod()


def elementwise_ref(p):
    return row_sum(p[0] ** 3 * np.sin(p[0])) + np.exp(row_sum(p[0]))


def closes_over_tensors(x):
    c, w = tensor(C), tensor(W)
    return (c * (w @ x).sin()).sum()


def closes_over_tensors_ref(p):
    return row_sum(C * np.sin(p[0] @ W.T))


def closes_over_variables(x):
    c = tensor(C).requires_grad_()
    d = (c * 2).exp()
    return (c * x**2).sum() * (d * x).sum()


def closes_over_variables_ref(p):
    return row_sum(C * p[0] ** 2) * row_sum(np.exp(2 * C) * p[0])


def broadcasts(x):
    return ((x[:, None] * x * tensor(W)).exp() + x.reshape(1, 3) * 2).sum() + (x.sum() * tensor(W)).sin().mean()


def broadcasts_ref(p):
    x = p[0]
    table = np.exp(x[..., :, None] * x[..., None, :] * W)
    return table.sum((-1, -2)) + 6 * row_sum(x) + np.sin(row_sum(x)[..., None, None] * W).mean((-1, -2))


def slices(x):
    return (x[1:] * x[:-1] ** 2).sum() + x[-1] ** 3 + x[::2].sin().sum() + x.flip(0)[0] * x[None, 1, None].sum()


def slices_ref(p):
    x = p[0]
    return (
        row_sum(x[..., 1:] * x[..., :-1] ** 2) + x[..., -1] ** 3 + row_sum(np.sin(x[..., ::2])) + x[..., 2] * x[..., 1]
    )


def integer_arrays(x):
    rows = lucid.tensor([[0, 2], [0, 1]])
    return (x[[0, 2, 0]] ** 2 * x[lucid.tensor([1, 1, 2])]).sum() + x[rows].prod(1).sin().sum()


def integer_arrays_ref(p):
    x = p[0]
    pairs = np.sin(x[..., [0, 0]] * x[..., [2, 1]])
    return row_sum(x[..., [0, 2, 0]] ** 2 * x[..., [1, 1, 2]]) + row_sum(pairs)


def masks(x):
    chosen = lucid.where(x > 0, x.sin(), x**3)
    return lucid.where(lucid.tensor(MASK), chosen, chosen * x).sum() + (x[lucid.tensor(MASK)] ** 2).sum()


def masks_ref(p):
    x = p[0]
    chosen = np.where(p[2] > 0, np.sin(x), x**3)
    return row_sum(np.where(MASK, chosen, chosen * x)) + row_sum(x[..., MASK] ** 2)


def products(x):
    a = x.outer(x.sin()) + tensor(W)
    return (a @ a).trace() + lucid.einsum("ij,i,j->", tensor(W), x, x**2) + x.cumsum(0).prod()


def products_ref(p):
    x = p[0]
    a = x[..., :, None] * np.sin(x)[..., None, :] + W
    return (
        np.trace(a @ a, axis1=-2, axis2=-1) + np.einsum("ij,...i,...j->...", W, x, x**2) + np.prod(np.cumsum(x, -1), -1)
    )


def many_outputs(x):
    a, b = x.split([1, 2])
    first, *rest = x.unbind()
    values, places = (x * x).sort()
    top, _ = x.max(0)
    return (a * b).sum() * first + rest[0].sin() + (values * tensor(C)).sum() + top**2 + x[places].dot(x)


def many_outputs_ref(p):
    x, held = p[0], np.real(p[2])
    order = np.argsort(held**2, axis=-1)
    ordered = np.take_along_axis(x, order, -1)
    top = np.take_along_axis(x, np.argmax(held, axis=-1)[..., None], -1)[..., 0]
    return (
        row_sum(x[..., :1] * x[..., 1:]) * x[..., 0]
        + np.sin(x[..., 1])
        + row_sum(ordered**2 * C)
        + top**2
        + row_sum(ordered * x)
    )


def complex_inside(x):
    z = (x * 1j).exp() * lucid.tensor(1.0 + 0.5j, dtype=lucid.complex128)
    return (z * z.conj()).real.sum() + (z.sum() * z[0]).imag


def complex_inside_ref(p):
    x = p[0]

    def angle(t):  # (exp(it)(1 + i/2)(1 + i/2)) taken apart by hand, so that it is analytic in t
        return 0.75 * np.sin(t) + 1.0 * np.cos(t)

    return 3 * 1.25 + 0 * row_sum(x) + row_sum(angle(x + x[..., :1]))


# Writes.


def writes_to_a_copy(x):
    y = x.clone()
    y.mul_(x)
    y.add_(1.0)
    y *= x.sin()
    y.sin_()
    return y.sum()


def writes_to_a_copy_ref(p):
    return row_sum(np.sin((p[0] ** 2 + 1) * np.sin(p[0])))


def writes_elements(x):
    y = x.clone()
    y[0] = x[1] * x[2]
    y[1:] = x[1:] * x[0]
    y[2] += x[0] ** 2
    return (y**2).sum()


def writes_elements_ref(p):
    a, b, c = np.moveaxis(p[0], -1, 0)
    return (b * c) ** 2 + (a * b) ** 2 + (c * a + a**2) ** 2


def fills_zeros(x):
    y = lucid.zeros(4, dtype=lucid.float64)
    y[0] = x.sum() ** 2
    y[1:3] = x[:2] ** 3
    y[3] = y[0].clone() * y[1].clone()
    return y.sin().sum()


def fills_zeros_ref(p):
    x = p[0]
    total, cube = row_sum(x) ** 2, x**3
    return np.sin(total) + row_sum(np.sin(cube[..., :2])) + np.sin(total * cube[..., 0])


def writes_through_views(x):
    y = x.clone()
    z = y[1:]
    z += x[:-1] ** 2
    z *= x[0]
    w = z[0]
    w.mul_(x[2])
    return (y * y).sum() + z.prod()


def writes_through_views_ref(p):
    a, b, c = np.moveaxis(p[0], -1, 0)
    first, second = (b + a**2) * a * c, (c + b**2) * a
    return a**2 + first**2 + second**2 + first * second


def writes_through_old_views(x):
    """Views of views of zeros, made before the first write of something that depends on x."""
    y = lucid.zeros(2, 3, dtype=lucid.float64)
    flipped, row = y.t(), y[0]
    last = row[1:]
    row.copy_(x)
    flipped[:, 1] = x * x
    last += y[1, :2]
    y.view(6)[5] = x[0].exp()
    return (y[0] * y[1]).sum() + flipped[2].sin().sum() + (last**3).sum()


def writes_through_old_views_ref(p):
    a, b, c = np.moveaxis(p[0], -1, 0)
    top = [a, b + a**2, c + b**2]
    bottom = [a**2, b**2, np.exp(a)]
    return (
        sum(t * u for t, u in zip(top, bottom, strict=True))
        + np.sin(top[2])
        + np.sin(bottom[2])
        + top[1] ** 3
        + top[2] ** 3
    )


def writes_through_masks(x):
    y = lucid.ones(3, dtype=lucid.float64)
    y[lucid.tensor(MASK)] = x[:2] ** 2
    y[[1, 2]] *= x[1:].sin()
    z = x.clone()
    z[z > 0] = 2.0
    z.masked_fill_(lucid.tensor(~MASK), 0.5)
    return y.prod() + (y * z).sum()


def writes_through_masks_ref(p):
    x = p[0]
    a, b, c = np.moveaxis(x, -1, 0)
    y = [a**2, np.sin(b), b**2 * np.sin(c)]
    z = np.moveaxis(np.where(MASK, np.where(p[2] > 0, 2.0, x), 0.5), -1, 0)
    return y[0] * y[1] * y[2] + sum(u * t for u, t in zip(y, z, strict=True))


def accumulates(x):
    y = lucid.zeros(2, dtype=lucid.float64)
    y.index_add_(0, lucid.tensor([0, 1, 0]), x**2)
    z = y.clone().index_put_((lucid.tensor([1, 1]),), x[:2], accumulate=True)
    return (y.sin() * z).sum()


def accumulates_ref(p):
    a, b, c = np.moveaxis(p[0], -1, 0)
    first, second = a**2 + c**2, b**2
    return np.sin(first) * first + np.sin(second) * (second + a + b)


def overwrites(x):
    y = x.sin()
    y.zero_()
    y += x
    y[1] = 3.0
    y.copy_(y.clone() * x)
    return (y * y).sum()


def overwrites_ref(p):
    y = np.where([True, False, True], p[0], 3.0) * p[0]
    return row_sum(y * y)


# Values that a derivative on the tape needs, overwritten: there it may be refused, elsewhere it must be right.


def overwrites_itself(x):
    y = x.clone()
    y.mul_(x)
    y *= y
    y[1:] = y[1:] * y[0]
    y.sin_()
    return y.sum()


def overwrites_itself_ref(p):
    squares = p[0] ** 4
    return np.sin(squares[..., 0]) + row_sum(np.sin(squares[..., 1:] * squares[..., :1]))


def overwrites_through_views(x):
    y = x.clone()
    z = y[1:]
    z += x[:-1] ** 2
    z *= y[0]
    y[0] = z[0] * z[1]
    w = y.view(1, 3)[0, 2:]
    w += y[0]
    return (y * y).sum()


def overwrites_through_views_ref(p):
    a, b, c = np.moveaxis(p[0], -1, 0)
    first, second = (b + a**2) * a, (c + b**2) * a
    return (first * second) ** 2 + first**2 + (second + first * second) ** 2


# Custom functions.


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class TwoOutputs(autograd.Function):
    """(x³, x·exp(c)), saved as inputs, outputs and values on the way."""

    @staticmethod
    def forward(x, c, factor):
        return x**3, factor * x * c.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, c, ctx.factor = inputs
        ctx.save_for_backward(x, output[1], c)

    @staticmethod
    def backward(ctx, g, h):
        x, y, c = ctx.saved_tensors
        return 3 * x**2 * g + ctx.factor * c.exp() * h, y * h, None


class CubeByNumpy(autograd.Function):
    """Only the forward goes through NumPy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tensor(x.numpy() ** 3)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class CubeAllByNumpy(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tensor(np.asarray(x) ** 3)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return tensor(3 * x.numpy() ** 2 * g.numpy())


class CubeForward(autograd.Function):
    """Only a jvp."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t


class CubeBothWays(Cube):
    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * t * x * x


class CubeBatched(Cube):
    @staticmethod
    def vmap(info, in_dims, x):
        return CubeBatched.apply(x.movedim(in_dims[0], 0)), 0


@func.custom_vjp
def cube_vjp(x):
    return x**3


cube_vjp.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))


@func.custom_jvp
def cube_jvp(x):
    return x**3


@cube_jvp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube_jvp(x), 3 * x**2 * t


def sin_of(cube: Function) -> Function:
    return lambda x: (cube(x.sin()) * x).sum()


def sin_of_cube_ref(p):
    return row_sum(np.sin(p[0]) ** 3 * p[0])


def two_outputs(x):
    cube, other = TwoOutputs.apply(x, x.sum(), 2.0)
    return (cube * other).sum()


def two_outputs_ref(p):
    x = p[0]
    return row_sum(x**3 * 2 * x * np.exp(row_sum(x))[..., None])


# What the tape does on the way.


def checkpointed(x):
    def inner(y):
        return (y.sin() * x).exp()

    return (autograd.checkpoint(inner, x * x) * x).sum()


def checkpointed_ref(p):
    return row_sum(np.exp(np.sin(p[0] ** 2) * p[0]) * p[0])


def checkpointed_twice(x):
    def inner(y):
        return y.sin() * tensor(C)

    return autograd.checkpoint(lambda y: (autograd.checkpoint(inner, y**2) * y).sum(), x.exp())


def checkpointed_twice_ref(p):
    e = np.exp(p[0])
    return row_sum(np.sin(e**2) * C * e)


def packed(x):
    with autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = x.sin() * x.exp()
    return (y * y * x).sum()


def packed_ref(p):
    return row_sum((np.sin(p[0]) * np.exp(p[0])) ** 2 * p[0])


def detached(x):
    return (x.detach() ** 2 * x.sin()).sum() + (x * x.exp().detach()).sum() ** 2


def detached_ref(p):
    x, _, held = p
    return row_sum(held**2 * np.sin(x)) + row_sum(x * np.exp(held)) ** 2


def under_no_grad(x):
    with lucid.no_grad():
        c = x**2 + 1
    return (c * x.sin()).sum() * x[0]


def under_no_grad_ref(p):
    x, pushed, _ = p
    return row_sum((pushed**2 + 1) * np.sin(x)) * x[..., 0]


def hooked(x):
    y = x.exp()
    if y.requires_grad:
        y.register_hook(lambda g: g * 1.0)
    return (y * y.sin()).sum()


def hooked_ref(p):
    y = np.exp(p[0])
    return row_sum(y * np.sin(y))


# Control flow.


def branches(x):
    y = lucid.cond(x[0] > 0, lambda a: a**3, lambda a: a.sin() * 2, x)
    return (y * x).sum()


def branches_ref(p):
    x = p[0]
    return row_sum(np.where(p[2][..., :1] > 0, x**3, 2 * np.sin(x)) * x)


def loops(x):
    """Doubles until the detached sum of squares exceeds 4: a different number of times for each point."""
    y, _ = lucid.while_loop(
        lambda s: (s[1] * s[1]).sum() < 4.0, lambda s: (s[0] * s[0].cos() + x, s[1] * 2), (x, x.detach())
    )
    return (y * x).sum()


def loops_ref(p):
    x, _, held = p
    y, size = x, np.real(held)
    for _ in range(8):
        go = (row_sum(size * size) < 4.0)[..., None]
        y, size = np.where(go, y * np.cos(y) + x, y), np.where(go, size * 2, size)
    return row_sum(y * x)


def scans(x):
    total, ys = lucid.scan(lambda c, e: (c * e + e.sin(), c * c), tensor(0.5), x)
    return total * ys.sum()


def scans_ref(p):
    c, ys = 0.5 + 0 * p[0][..., 0], 0
    for e in np.moveaxis(p[0], -1, 0):
        c, ys = c * e + np.sin(e), ys + c * c
    return c * ys


class Sample(NamedTuple):
    name: str
    f: Function
    ref: Function
    max_order: int = 9  # of derivatives that it has; more are refused
    refusal: str = ""  # what it may say instead of a number,
    refused: Callable[[Nesting], bool] = lambda nesting: False  # and where


SAMPLES = [
    Sample(f.__name__, f, globals()[f"{f.__name__}_ref"])
    for f in (
        elementwise, closes_over_tensors, closes_over_variables, broadcasts, slices, integer_arrays, masks, products,
        many_outputs, complex_inside, writes_to_a_copy, writes_elements, fills_zeros, writes_through_views,
        writes_through_old_views, writes_through_masks, accumulates, overwrites, two_outputs, checkpointed,
        checkpointed_twice, packed, detached, under_no_grad, hooked, branches, scans,
    )
]  # fmt: skip
SAMPLES += [
    Sample(
        f.__name__,
        f,
        ref,
        refusal="overwritten by an in-place|overwrites a value that",
        refused=lambda nesting: nesting.on_tape,
    )
    for f, ref in (
        (overwrites_itself, overwrites_itself_ref),
        (overwrites_through_views, overwrites_through_views_ref),
    )
]
SAMPLES += [
    Sample(
        "loops", loops, loops_ref, refusal="while_loop: .*(traced|make_graph)", refused=lambda n: n[0].name == "program"
    ),
    Sample("function", sin_of(Cube.apply), sin_of_cube_ref),
    # Its forward runs once for each example, and what it saves for them leads to one derivative.
    Sample(
        "function_with_numpy_forward",
        sin_of(CubeByNumpy.apply),
        sin_of_cube_ref,
        refusal="cannot be differentiated (again|through a second transform) inside",
        refused=lambda n: n.order > 1 and any(step.is_batch for step in n),
    ),
    Sample("function_with_numpy", sin_of(CubeAllByNumpy.apply), sin_of_cube_ref, max_order=1),
    Sample("function_with_only_jvp", sin_of(CubeForward.apply), sin_of_cube_ref),
    Sample("function_with_jvp", sin_of(CubeBothWays.apply), sin_of_cube_ref),
    Sample("function_with_vmap", sin_of(CubeBatched.apply), sin_of_cube_ref),
    Sample("custom_vjp", sin_of(cube_vjp), sin_of_cube_ref),
    Sample("custom_jvp", sin_of(cube_jvp), sin_of_cube_ref),
]
