"""A program in PyTorch: values and memory line by line, then gradients and second order of the whole."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.program import NAMES, Array, Line, is_float, tensor
from fuzz.subject import Comparison, Subject, inner
from lucid.core.tensor import Tensor

try:
    import torch
except ImportError:  # programs then run without a second opinion
    torch = None

# Whether these copy depends on how memory is laid out, which libraries may do as they like.
LAYOUT = re.compile("reshape|flatten|ravel|contiguous|as_strided")
TORCH_REFUSES = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError, AssertionError)


def theirs_of(a: Array) -> Any:
    x = torch.from_numpy(np.array(a, order="K"))
    return x.requires_grad_() if is_float(a) else x


def plain(x: Any) -> Array:
    """The values of a tensor of either library."""
    if isinstance(x, Tensor):
        return np.asarray(x._concrete("the fuzzer"))
    # A copy: NumPy cannot look at pieces of PyTorch's zeros without memory.
    return x.detach().clone().resolve_conj().resolve_neg().numpy()


def torch_mode(subject: Subject) -> Iterator[Comparison]:
    if torch is None or not subject.program.in_torch:
        return
    program = subject.program
    ours: dict[str, Any] = {n: tensor(a) for n, a in program.inputs.items()}
    theirs = {n: theirs_of(a) for n, a in program.inputs.items()}
    for n in program.floats:
        ours[n].requires_grad_()
    names = {**NAMES, **program.constants, "lucid": torch}
    differentiable = True
    for line in program.lines:
        if LAYOUT.search(line.text) and not all(alike(ours[n], theirs[n]) for n in line.uses):
            return
        exec(line.code, program.names, ours)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line.code, names, theirs)
        except TORCH_REFUSES:
            return
        yield from same_line(line, ours, theirs)
        differentiable = differentiable and all(same_tape(ours[n], theirs[n]) for n in line.defines)
    if differentiable:
        yield from same_derivatives(subject, theirs)


def same_tape(a: Any, b: Any) -> bool:
    """Whether both have a derivative; PyTorch does not know all of them."""
    return not isinstance(b, torch.Tensor) or a.requires_grad == b.requires_grad


def same_line(line: Line, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Comparison]:
    """Values and types of what the line names, and which of them share memory."""
    for name in (*line.uses, *line.defines):
        a, b = ours.get(name), theirs.get(name)
        if not isinstance(a, Tensor) or not isinstance(b, torch.Tensor):
            continue
        yield Comparison("values in PyTorch", [plain(a)], [plain(b)], op=line.op)
        if name in line.defines:
            yield Comparison("type in PyTorch", [a.dtype.name], [str(b.dtype).removeprefix("torch.")], op=line.op)
    for name in line.defines:
        yield from same_memory(line, name, ours, theirs)


def same_memory(line: Line, name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Comparison]:
    """What is a copy in PyTorch is a copy here, if the operands are laid out alike."""
    if not isinstance(theirs.get(name), torch.Tensor) or not all(alike(ours[n], theirs[n]) for n in line.uses):
        return
    for other in line.uses:
        if isinstance(theirs.get(other), torch.Tensor) and theirs[name] is not theirs[other]:
            shared = np.may_share_memory(plain(ours[name]), plain(ours[other]))
            if shared and not overlap(theirs[name], theirs[other]):
                yield Comparison("shared memory", [True], [False], op=line.op)


def overlap(a: Any, b: Any) -> bool:
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr() or not a.numel() or not b.numel():
        return False
    (low, high), (start, end) = extent(a), extent(b)
    return low <= end and start <= high


def extent(x: Any) -> tuple[int, int]:
    """The first and the last byte."""
    reach = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + reach * x.element_size() + x.element_size() - 1


def alike(a: Any, b: Any) -> bool:
    """Whether two tensors have the same strides; those of single elements say nothing."""
    if not isinstance(b, torch.Tensor):
        return True
    x = plain(a)
    steps = [s // x.itemsize for n, s in zip(x.shape, x.strides, strict=True) if n > 1]
    return tuple(x.shape) == tuple(b.shape) and steps == [s for n, s in zip(b.shape, b.stride(), strict=True) if n > 1]


def same_derivatives(subject: Subject, theirs: dict[str, Any]) -> Iterator[Comparison]:
    """Where finite differences contradict PyTorch, these decide, and another mode compares with them."""
    if any(np.isnan(v).any() for v in subject.float_values()):
        return  # which operand is to blame is a matter of convention, and has tests of its own
    twice = subject.rng.random() < 0.5
    inputs = [theirs[n] for n in subject.floats]
    outs = [theirs[subject.program.outputs[k]] for k in subject.kept]
    try:
        first = torch_pulled(outs, [torch.from_numpy(w) for w in subject.weights], inputs, create_graph=twice)
    except TORCH_REFUSES:
        return
    gradient = [plain(g) for g in first]
    if contradicted(inner(gradient, subject.directions), gradient_by_differences(subject)):
        return
    yield Comparison("gradient in PyTorch", subject.gradient, gradient)
    if not twice or not all(np.isfinite(g).all() for g in gradient):
        return
    try:
        curvature = torch_pulled(first, [torch.from_numpy(d) for d in subject.directions], inputs)
    except TORCH_REFUSES:
        return
    theirs_second = [plain(g) for g in curvature]
    found = subject.gradient_differences
    trusted = bool(found) and all(ok.all() for _, ok in found)
    if trusted and any(contradicted(g, d) for g, (d, _) in zip(theirs_second, found, strict=True)):
        return
    if all(np.isfinite(g).all() for g in theirs_second):  # PyTorch's is often nan where values meet
        yield Comparison("curvature in PyTorch", subject.curvature, theirs_second)


def gradient_by_differences(subject: Subject) -> float | None:
    """The slope along the directions by finite differences, where these can be trusted."""
    if not subject.has_differences or not all(ok.all() for _, ok in subject.differences):
        return None
    return inner(subject.weights, [d for d, _ in subject.differences])


def contradicted(theirs: Any, differences: Any) -> bool:
    return differences is not None and bool(np.any(np.abs(theirs - differences) > 1e-3 * (1 + np.abs(differences))))


def torch_pulled(outs: list[Any], weights: list[Any], inputs: list[Any], **how: Any) -> list[Any]:
    pairs = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
    empty = [torch.zeros_like(x) for x in inputs]
    if not pairs or not inputs:
        return empty
    live, seeds = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.autograd.grad(live, inputs, grad_outputs=seeds, allow_unused=True, **how)
    return [zero if g is None else g for g, zero in zip(found, empty, strict=True)]
