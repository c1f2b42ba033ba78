"""Makes a failing program small: fewer lines, fewer results, rounder numbers, as long as it fails in the same way."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.batches import Batch
from fuzz.judge import Finding, run_modes
from fuzz.modes import EVERY
from fuzz.program import Array, Line, Program, array, is_float, literal
from fuzz.subject import Subject
from lucid.core.tensor import Tensor

Check = Callable[[Program], Finding | None]


def same_failure(finding: Finding) -> Check:
    """Runs a program in the mode that failed, and gives what is wrong if it is the same kind of thing."""

    def check(program: Program) -> Finding | None:
        if not finding.what.startswith("inputs") and not leaves_inputs(program):
            return None
        found = next(run_modes([finding.mode], program, finding.number), None)
        return found if found and kind(found) == kind(finding) else None

    return check


def kind(finding: Finding) -> tuple[str, ...]:
    """Differences in one quantity are of one kind, and errors that begin in the same way."""
    words = finding.detail[:20] if finding.what.endswith("Error") else ""
    return finding.mode, finding.what, words


def leaves_inputs(program: Program) -> bool:
    """Whether a program writes into none of its inputs."""
    inputs = program.tensors()
    try:
        program(inputs)
    except Exception:  # it may be what is looked for
        return True
    return all(array(x).tobytes() == a.tobytes() for x, a in zip(inputs.values(), program.inputs.values(), strict=True))


def shrunk(finding: Finding, check: Check | None = None) -> Finding:
    """A small program that fails in the same way: the first lines, one result, fewer lines, rounder numbers."""
    check, best = check or same_failure(finding), finding
    for candidate in prefixes(best.program):
        found = check(candidate)
        if found:
            best = found
            break
    best = first_of(single_outputs, best, check)
    before = -1
    while before != len(best.program.lines):
        before = len(best.program.lines)
        for k in reversed(range(before)):
            best = first_of(lambda program, k=k: without(program, k), best, check)
    return first_of(rounded, first_of(single_outputs, best, check), check)


def first_of(smaller: Callable[[Program], Iterator[Program]], best: Finding, check: Check) -> Finding:
    """The first of the smaller programs that fails too."""
    return next((found for found in map(check, smaller(best.program)) if found), best)


def prefixes(program: Program) -> Iterator[Program]:
    for end in (1, 2, 3, 4, 6, 8, 11, 15, 20):
        if end < len(program.lines):
            yield from ended(program, end)


def single_outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        yield from (program.with_lines(program.lines, [name]) for name in reversed(program.outputs))


def ended(program: Program, end: int) -> Iterator[Program]:
    """The first lines alone; all that they make goes out."""
    kept = program.lines[:end]
    made = [name for line in kept for name in line.defines]
    if made:
        yield program.with_lines(kept, made[-8:])


def without(program: Program, k: int) -> Iterator[Program]:
    """Without one line: what it makes comes in instead, with the value that it had, or is missed by nobody."""
    kept = (*program.lines[:k], *program.lines[k + 1 :])
    if not kept or k >= len(program.lines):
        return
    made = program.lines[k].defines
    outputs = [n for n in program.outputs if n not in made]
    read = {name for line in kept for name in line.uses}
    missing = [n for n in made if n in read]
    values = values_after(program, k) if missing else {}
    if not all(n in values for n in missing):
        return
    if not outputs:
        outputs = [n for line in kept for n in line.defines][-1:] or missing[:1]
    if all(line.defines for line in kept):
        yield replace(program, inputs={**program.inputs, **{n: values[n] for n in missing}}).with_lines(kept, outputs)
        return
    # What may be written into comes in under another name, and the program works on a copy.
    if program.lines[k].text.endswith("_.clone()"):
        return
    copies = [Line(f"{n} = {n}_.clone()", (n,), (f"{n}_",), "clone") for n in missing]
    inputs = {**program.inputs, **{f"{n}_": values[n] for n in missing}}
    kept = (*program.lines[:k], *copies, *program.lines[k + 1 :])
    yield replace(program, inputs=inputs).with_lines(kept, outputs)


def values_after(program: Program, k: int) -> dict[str, Array]:
    variables: dict[str, Any] = dict(program.tensors())
    try:
        for line in program.lines[: k + 1]:
            exec(line.code, program.names, variables)
    except Exception:  # the program fails before
        return {}
    return {n: array(v).copy() for n, v in variables.items() if isinstance(v, Tensor)}


def rounded(program: Program) -> Iterator[Program]:
    """All numbers with one decimal, or with two."""
    for digits in (1, 2):
        inputs = {n: np.round(a, digits).astype(a.dtype) if is_float(a) else a for n, a in program.inputs.items()}
        yield replace(program, inputs=inputs)


def pasted(finding: Finding) -> str:
    """The program as source, with how it was run and what came out."""
    program = finding.program
    example = EVERY[finding.mode].example if finding.mode in EVERY else "f(*xs)"
    batched, plain = "in_dims" in example, example.startswith("f(")
    arguments = list(program.inputs) if batched or plain else list(program.floats)
    parts = [program.source(arguments), "", f"xs = {tupled(arguments)}"]
    with suppress(Exception):  # the program itself may be what fails
        parts += settings(Subject(program, finding.number).for_mode(finding.mode), example)
    return "\n".join([*parts, f"{example}  # {finding.what}: {' '.join(finding.detail.split())}"])


def settings(subject: Subject, example: str) -> Iterator[str]:
    """The names that an example reads, as source."""
    weights = subject.weights
    if "in_dims" in example:
        batch = Batch(subject)
        weights = batch.stacked_weights()
        yield f"in_dims = {batch.in_dims}"
        yield f"xs = {tupled(f'lucid.tensor({literal(array(x))})' for x in batch.stacked())}"
    if "others" in example:
        yield "others = tuple(x * 1.03 for x in xs)"
    if "vs" in example:
        yield f"vs = {tupled(f'lucid.tensor({literal(v)})' for v in subject.directions)}"
    if "ws" in example:
        yield f"ws = {tupled(f'lucid.tensor({literal(w)})' for w in weights)}"
    if "autograd" in example:
        yield "xs = tuple(x.requires_grad_() if x.dtype.is_floating_point or x.dtype.is_complex else x for x in xs)"


def tupled(items: Iterable[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items).rstrip()})"
