"""Contractions as products of matrices, or of stacks of them, that BLAS or the loops of `backends.cpu.gemm` make."""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import blas
from lucid.backends.cpu.contraction import MATRICES, STACKS, VECTOR_AND_MATRIX, VECTORS, Steps
from lucid.compiler.layout import Place
from lucid.core import arrays

_PRODUCTS = {"f4": "sgemm", "f8": "dgemm"}


def can_multiply(dtype: Any) -> bool:
    """Whether there are products of matrices of a type."""
    name = _PRODUCTS.get(dtype.str[1:])
    return name is not None and bool(blas.function(name))


def product_step(x: Place, y: Place, out: Place, labels: Any) -> tuple[dict[str, Any], list[Place]] | None:
    """What makes the product of two places; None if it is no product of matrices as they lie in memory."""
    dtype = out.array.dtype
    if not can_multiply(dtype) or x.array.dtype != dtype or y.array.dtype != dtype:
        return None
    steps = labels.steps
    if steps is None:
        steps = labels.steps = Steps(labels)
    found = _matrices(x, y, steps)
    return None if found is None else matrices_step(*found, out)


def matrices_step(a: Place, b: Place, out: Place) -> tuple[dict[str, Any], list[Place]] | None:
    """What makes the products of stacks of matrices; None if BLAS cannot read them as they lie in memory."""
    dtype = out.array.dtype
    stack = np.broadcast_shapes(a.array.shape[:-2], b.array.shape[:-2])
    a, b = [p.shown(np.broadcast_to(p.array, (*stack, *p.array.shape[-2:]))) for p in (a, b)]
    size = dtype.itemsize
    rows, depth, columns = a.array.shape[-2], a.array.shape[-1], b.array.shape[-1]
    if not rows * depth * columns or len(stack) > 8:
        return None
    strides = []
    for place, high, wide in ((a, rows, depth), (b, depth, columns)):
        down, right = place.array.strides[-2:]
        if down % size or right % size or down < 0 or right < 0:
            return None
        down, right = down // size, right // size
        down, right = (down if high > 1 else wide, right if wide > 1 else 1)
        if not ((right == 1 and down >= wide) or (down == 1 and right >= high)):
            return None
        strides += [down, right]
    facts = {
        "gemm": blas.function(_PRODUCTS[dtype.str[1:]]),
        "is_single": size == 4,
        "size": size,
        "stack": stack,
        "x_steps": a.array.strides[:-2],
        "y_steps": b.array.strides[:-2],
        "sizes": (rows, depth, columns),
        "strides": tuple(strides),
        "work": 0.1 * math.prod(stack) * rows * depth * columns,
    }
    return facts, [a, b, out]


def _matrices(x: Place, y: Place, steps: Any) -> tuple[Place, Place] | None:
    """The factors as stacks of matrices whose product lies in row-major order."""
    a, b, code = x.array, y.array, steps.code
    if code == MATRICES:
        a, b = a.T if steps.flip_left else a, b.T if steps.flip_right else b
        return (y.shown(b.T), x.shown(a.T)) if steps.swap else (x.shown(a), y.shown(b))
    if code == VECTORS:
        return x.shown(a[None]), y.shown(b[:, None])
    if code == VECTOR_AND_MATRIX:
        a, b = a.T if steps.flip_left else a, b.T if steps.flip_right else b
        return x.shown(a if a.ndim > 1 else a[None]), y.shown(b if b.ndim > 1 else b[:, None])
    if code != STACKS:
        return None
    first, second = (y, x) if steps.swap else (x, y)
    a, b = steps.first.of(first.array), steps.second.of(second.array)
    if steps.merges:
        stack, k = steps.stack, steps.rows + steps.stack
        inner = math.prod(a.shape[k:])
        a = _reshaped(a, (*a.shape[:stack], math.prod(a.shape[stack:k]), inner))
        b = _reshaped(b, (*b.shape[:stack], inner, math.prod(b.shape[stack + steps.inner :])))
    return None if a is None or b is None else (first.shown(a), second.shown(b))


def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    """Another shape of an array, without a copy; None if it needs one."""
    return array.reshape(shape) if arrays.can_reshape(array, shape) else None
