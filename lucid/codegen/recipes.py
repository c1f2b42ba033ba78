"""What decides about generated code, in words: the steps of a body, which a reader sees and by which code is found again.

Code is found in the pack and in the cache by its recipe, before any of it is written: with the sources of the code
generator, the recipe says all that the text of the code depends on.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lucid.codegen.vectors import Function, Type
from lucid.ops.expressions import Body, Constant, Operand, Parameter, Result, Step


class Recipe(NamedTuple):
    """Functions of machine code that belong together: what they compute, and what writes them."""

    kind: str  # of loops
    name: str  # of the operation, for readers
    text: str
    functions: tuple[str, ...]
    write: Callable[[], Sequence[Function]]


def _shown(what: Any) -> str:
    if isinstance(what, Operand):
        return f"x{what.place}"
    if isinstance(what, Result):
        return f"t{what.place}"
    if isinstance(what, Parameter):
        return what.name
    if isinstance(what, Constant):
        return f"{what.dtype.name}({what.value!r})"
    return repr(what)


def type_name(type: Type) -> str:
    """A type of numbers in memory, as users call it."""
    if type.is_complex:
        return {"cfloat": "complex64", "cdouble": "complex128"}[type.of]
    if type.is_float:
        return {"half": "float16", "bfloat": "bfloat16", "float": "float32", "double": "float64"}[type.of]
    if type.of == "i1":
        return "bool"
    return f"{'' if type.is_signed else 'u'}int{type.bits}"


def _steps(steps: Sequence[Step]) -> list[str]:
    lines = []
    for k, step in enumerate(steps):
        given = [_shown(o) for o in step.operands] + [f"{n}={v!r}" for n, v in sorted(step.params.items())]
        lines.append(f"t{k} = {step.primitive.name}({', '.join(given)})  # {step.dtype.name}")
    return lines


def body_text(body: Body) -> str:
    """The steps of a body, one in a line; the types are those that it computes in."""
    return "\n".join([*_steps(body.steps), f"return {_shown(body.result)}  # {body.dtype.name}"])


def _signature(operands: Sequence[Type], results: Sequence[Type], plan: Any) -> str:
    """The types in memory and of the computation, which differ in half precision, and the numbers that calls give."""
    given = ", ".join(f"x{k}: {type_name(t)}" for k, t in enumerate(operands))
    types = ", ".join(t.name for t in plan.body.types)
    head = f"({given}) -> {', '.join(map(type_name, results))}, computed of ({types}), {plan.lanes} at once"
    return f"{head}, with the numbers {', '.join(plan.numbers)}" if plan.numbers else head


def of_body(plan: Any) -> str:
    """The recipe of a loop over elements (`bodies.Plan`)."""
    return f"{_signature(plan.types, [plan.result], plan)}\n{body_text(plan.body)}"


def of_update(plan: Any) -> str:
    """The recipe of an update in place (`updates.UpdatePlan`)."""
    results = ", ".join(_shown(body.result) for body in plan.bodies)
    kind = type_name(plan.element)
    head = f"{plan.operands} operands and {plan.numbers} numbers of {kind}, {plan.lanes} at once"
    return "\n".join([head, *_steps(plan.bodies[0].steps), f"return {results}"])


def of_rows(plan: Any, alike: Sequence[int]) -> str:
    """The recipe of a loop over a row (`rows.RowPlan`), or over rows side by side; elements of some operands are alike."""
    body = plan.body
    lines = [_signature(plan.operands, plan.results, plan), *_steps(body.steps)]
    lines.append(f"return {', '.join(map(_shown, body.results))}")
    for place, fold in plan.folds.items():
        lines += [f"t{place} puts the elements of a row together:", of_fold(fold)]
    lines.append(f"operands with one number for all elements at hand: {list(alike)}")
    return "\n".join(lines)


def of_fold(plan: Any) -> str:
    """The recipe of the loops of a reduction (`folds.FoldPlan`)."""
    n = len(plan.states)
    lines = [
        f"({'x and a number' if plan.has_number else 'x'}: {type_name(plan.element)}) -> {type_name(plan.result)}, {plan.lanes} at once",
        f"elements are ({', '.join(t.name for t in plan.lift[0].types)}), the last their place",
        f"the state of none: {', '.join(map(repr, plan.unit))}",
    ]
    for k, body in enumerate(plan.lift):
        lines += [f"state {k} of an element x0:", body_text(body)]
    for k, body in enumerate(plan.combine):
        lines += [f"state {k} of two, x0 to x{n - 1} and x{n} to x{2 * n - 1}:", body_text(body)]
    lines += ["the result of a state:", body_text(plan.finish)]
    return "\n".join(lines)


# Programs have many loops of few plans.
_type_text = lru_cache(maxsize=64)(str)
_body_text = lru_cache(maxsize=4096)(of_body)
fold_text = lru_cache(maxsize=1024)(of_fold)


def of_chain(chain: Any, free: int = 1) -> str:
    """The recipe of a loop of a program (`fused.Chain`), for any sizes of so many dimensions: calls say how much is to do."""
    is_exact, is_many = chain.shape[-1] % chain.lanes == 0, chain.shape[-1] > 1
    lines = [f"{len(chain.shape)}: {list(chain.shape[free:])} by {chain.lanes} {is_exact} {is_many}"]
    lines += [f"read {_type_text(a.dtype)} {a.strides}" for a in chain.reads]
    lines += [f"{o.plan.name}{o.operands} {o.plan.given}\n{_body_text(o.plan)}" for o in chain.operations]
    lines += [f"write {what} {_type_text(a.dtype)} {a.strides}" for what, a in chain.writes]
    return "\n".join(lines)


def of_folds(fold: Any) -> str:
    """The recipe of a loop with reductions (`fused.Fold`)."""
    head = f"{fold.kept} {fold.folded} {fold.apart} {fold.is_open} {fold.is_exact}"
    parts = [f"folds {p.what} {_type_text(p.dtype)} {p.is_packed}\n{fold_text(p.plan)}" for p in fold.parts]
    return "\n".join([head, of_chain(fold.chain, 1 + fold.is_open), *parts])
