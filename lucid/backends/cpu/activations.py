"""Activations x·gate(x), and what their slopes make of a cotangent: ReLU, SiLU, and GELU, exact and not.

Arrays are of one type and shape, float or double, and lie in order. `activations.pyx` does the same in one pass over memory.

To be replaced by generated code.
"""

from importlib import import_module
from math import pi, sqrt
from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import chain
from lucid.ops.nn.constants import LOG_ODDS, A, B


def _ndtr(x: Any) -> Any:
    """Φ(x), the normal distribution."""
    return import_module("scipy.special").ndtr(x)


def _exp_minus(x: Any, out: Any) -> None:
    """1 + exp(-x). Where that overflows, its inverse is 0, as it should be."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)


def relu(x: Any, out: Any) -> None:
    """max(x, 0)"""
    np.maximum(x, 0, out=out)


def relu_back(g: Any, x: Any, out: Any) -> None:
    """g where x > 0, and exactly 0 elsewhere"""
    np.copyto(out, 0)
    np.copyto(out, g, where=x > 0)


def silu(x: Any, out: Any) -> None:
    """x · sigmoid(x)"""
    _exp_minus(x, out)
    np.divide(x, out, out=out)


def silu_back(g: Any, x: Any, out: Any) -> None:
    """g · s (1 + x (1 - s)) with s = sigmoid(x)"""
    _exp_minus(x, out)
    np.reciprocal(out, out=out)
    np.multiply(out, 1 + chain(1 - out, x), out=out)
    np.copyto(out, chain(g, out))


def _odds_against(x: Any, out: Any) -> None:
    """1 + exp(-x p(x²)) = 1 / Φ(x), in single precision."""
    square = x * x
    np.minimum(square, np.float32(36), out=square)
    np.multiply(square, np.float32(LOG_ODDS[0]), out=out)
    for c in LOG_ODDS[1:-1]:
        np.add(out, np.float32(c), out=out)
        np.multiply(out, square, out=out)
    np.add(out, np.float32(LOG_ODDS[-1]), out=out)
    np.multiply(out, x, out=out)
    _exp_minus(out, out)


def gelu(x: Any, out: Any) -> None:
    """x Φ(x)"""
    if x.dtype == np.float64:
        np.multiply(x, _ndtr(x), out=out)
        return
    _odds_against(x, out)
    np.divide(x, out, out=out)


def gelu_back(g: Any, x: Any, out: Any) -> None:
    """g · (Φ(x) + x φ(x)), where φ is the density of the normal distribution"""
    if x.dtype == np.float64:
        np.copyto(out, _ndtr(x))
    else:
        _odds_against(x, out)
        np.reciprocal(out, out=out)
    density = x * x
    density *= x.dtype.type(-0.5)
    np.exp(density, out=density)
    density *= x.dtype.type(1 / sqrt(2 * pi))
    density *= x
    np.add(out, density, out=out)
    np.copyto(out, chain(g, out))


def _one_over_gate(x: Any, out: Any) -> None:
    """1 + exp(-v)."""
    np.multiply(x, x, out=out)
    np.multiply(out, x.dtype.type(B), out=out)
    np.add(out, x.dtype.type(A), out=out)
    np.multiply(out, x, out=out)
    _exp_minus(out, out)


def gelu_tanh(x: Any, out: Any) -> None:
    """x · sigmoid(v)"""
    _one_over_gate(x, out)
    np.divide(x, out, out=out)


def gelu_tanh_back(g: Any, x: Any, out: Any) -> None:
    """g · s (1 + x (1 - s) v') with s = sigmoid(v)"""
    _one_over_gate(x, out)
    np.reciprocal(out, out=out)
    growth = x * x
    growth *= x.dtype.type(3 * B)
    growth += x.dtype.type(A)
    growth *= x
    growth *= 1 - out
    growth += 1
    np.multiply(out, growth, out=out)
    np.copyto(out, chain(g, out))
