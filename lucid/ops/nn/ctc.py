"""Connectionist temporal classification: the probability of all ways to spell a target over time.

The target is spread with blanks into a row of L = 2 S + 1 states. A path starts in state 0 or 1 and moves at each step
by 0, 1 or (past a blank, to a label that differs from the last) 2 states. `ctc_scan` gives the logarithms α[t, s] of
the probabilities of all paths that are in state s at time t, and `lattice`, which is linear in b, its derivatives.
"""

import math
from typing import Any

from lucid.core.arrays import steps
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.abstract import same
from lucid.ops.rules import P, add_all, batched_to_front

_STEPS = (0, 1, 2)


def _moved(x: Any, steps: int) -> Any:
    """x[t - 1, s - steps]; 0 comes in at the borders."""
    shape = x.shape
    rest = (slice(None),) * (len(shape) - 2)
    source = (slice(0, shape[0] - 1), *rest, slice(0, max(shape[-1] - steps, 0)))
    target = (slice(1, shape[0]), *rest, slice(min(steps, shape[-1]), shape[-1]))
    return P.slice_back(P.slice(x, index=source), index=target, shape=shape)


def _shares(alpha: Any, emit: Any, skip: Any) -> list[Any]:
    """How much of each α comes from the state 0, 1 and 2 further back: factors that add up to 1."""
    impossible = alpha == -math.inf
    rest = P.where(impossible, -math.inf, emit - alpha)
    # What comes in at the borders must be impossible, which 0 is not.
    time, state = (Tensor._wrap(s) for s in (steps(alpha.shape[0], (1,) * (alpha.ndim - 1)), steps(alpha.shape[-1])))
    shares = []
    for k in _STEPS:
        reachable = P.logical_and(time >= 1, state >= k)
        log_share = _moved(alpha, k) + rest
        shares.append(P.exp(P.where(reachable, log_share + skip if k == 2 else log_share, -math.inf)))
    return shares


def _pull_scan(ct: Any, emit: Any, skip: Any, out: Any) -> Any:
    return _run_back(ct, _shares(out, emit, skip))


def _push_scan(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return P.lattice(*_shares(out, *primals), tangents[0])


def _batch_scan(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    emit, skip = batched_to_front(values, batched, size)
    return _to_front(prim(_behind(emit), skip))


def _behind(x: Any) -> Any:
    """The batch behind the time."""
    return P.permute(x, dims=(1, 0, *range(2, x.ndim)))


_to_front = _behind

# α[t] = emit[t] + log(exp α[t-1, s] + exp α[t-1, s-1] + exp(α[t-1, s-2] + skip)): emit has shape (T, ..., L), and skip,
# which is 0 or -inf, shape (..., L). It has no fold: states see their neighbours of the step before.
ctc_scan = Primitive(
    "ctc_scan",
    operands=("emit", "skip"),
    rules=(_pull_scan, None),
    jvp=_push_scan,
    batch=_batch_scan,
    abstract=same,
    category="scan",
)


def _turned(x: Any) -> Any:
    """Time and states from the other end."""
    return P.flip(x, dims=(0, x.ndim - 1))


def _run_back(ct: Any, factors: Any) -> Any:
    """The transpose: the same recurrence from the other end, each factor where its path now ends."""
    turned = [_moved(_turned(a), k) for k, a in zip(_STEPS, factors, strict=True)]
    return _turned(P.lattice(*turned, _turned(ct)))


def _pull_factor(k: int) -> Any:
    return lambda ct, a0, a1, a2, out: _run_back(ct, (a0, a1, a2)) * _moved(out, k)


def _push_lattice(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    *factors, _ = primals
    *changes, drive = tangents
    terms = [t * _moved(out, k) for k, t in zip(_STEPS, changes, strict=True) if t is not None]
    return prim(*factors, add_all(terms if drive is None else [*terms, drive]))


def _batch_lattice(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return _to_front(prim(*[_behind(v) for v in batched_to_front(values, batched, size)]))


# h[t, s] = b[t, s] + Σ a_k[t, s] h[t-1, s-k] for k = 0, 1, 2; all of shape (T, ..., L).
lattice = Primitive(
    "lattice",
    operands=("a0", "a1", "a2", "b"),
    rules=(*[_pull_factor(k) for k in _STEPS], lambda ct, a0, a1, a2: _run_back(ct, (a0, a1, a2))),
    jvp=_push_lattice,
    batch=_batch_lattice,
    abstract=same,
    reason="a table that depends on values",
)


def log_alpha(emit: Tensor, skip: Tensor) -> Tensor:
    """Logarithms of the probabilities of all paths to each state at each time; see the module's text.

    >>> import lucid
    >>> from lucid.ops.nn.ctc import log_alpha
    >>> skip = lucid.full((3,), -lucid.inf)
    >>> log_alpha(lucid.zeros(3, 3), skip).exp()
    Tensor([[1., 1., 0.],
            [1., 2., 1.],
            [1., 3., 3.]])
    """
    return P.ctc_scan(emit, skip)
