"""What writes, `detach` and `no_grad` are in a program, where nothing is overwritten; and which primitives may raise."""

from collections.abc import Callable
from typing import Any

from lucid.core.arrays import zeros
from lucid.core.primitive import P, Primitive, registry
from lucid.core.tensor import Tensor
from lucid.ir.values import Instruction
from lucid.ops.abstract import same


def _write_view_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: dict[str, Any]) -> Any:
    parts = [_zeros(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    return prim(*parts, **params)


def _zeros(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor._wrap(zeros(value.shape, value.np_dtype))
    return zeros(value.shape, value.dtype)


# What a write through a view is in a program: the base, with other elements where the view shows it.
WRITE_VIEW: Primitive = Primitive(
    "write_view",
    operands=("base", "new"),
    rules=(
        lambda ct, new_shape, through, settings: WRITE_VIEW(
            ct, _zeros(through(ct, **settings)), through=through, settings=settings
        ),
        lambda ct, through, settings: through(ct, **settings),
    ),
    jvp=_write_view_jvp,
    abstract=same,
    category="scatter",
)
WRITE_VIEW.linear_in = (0, 1)


# The same values; derivatives do not pass, or only forward ones.
DETACH = Primitive("detach", abstract=same)
UNRECORDED_VALUE = Primitive(
    "no_grad",
    rules=(lambda ct: None,),
    jvp=lambda prim, primals, tangents, out, params: tangents[0],
    batch=lambda prim, values, batched, size, params: prim(values[0]),
    abstract=same,
)


# Other values with the history of the first operand: in forward mode too, unless the change was `pushed` along.
OTHER_VALUE = Primitive(
    "other_value",
    operands=("old", "new"),
    rules=(lambda ct: ct, None),
    jvp=lambda prim, primals, tangents, out, params: tangents[1] if params["pushed"] else tangents[0],
    batch=lambda prim, values, batched, size, params: prim(
        *[v if b else P.broadcast_to(v, shape=(size, *v.shape)) for v, b in zip(values, batched, strict=True)], **params
    ),
    abstract=lambda old, new, pushed: same(new),
)


for _name in ("detach", "no_grad", "other_value"):
    registry.pop(_name)  # they belong to programs, and are not operations that anybody calls by name


def _of_integers(instruction: Instruction) -> bool:
    return instruction.results[0].dtype.numpy.kind in "iu"


def _if(param: str) -> Callable[[Instruction], bool]:
    return lambda instruction: bool(instruction.params[param])


def _always(instruction: Instruction) -> bool:
    return True


# Primitives that raise for some values: what they check, and in which instructions they do.
CHECKS: dict[str, tuple[str, Callable[[Instruction], bool]]] = {
    "in_range": ("that indices are in range", _always),
    **dict.fromkeys(("cross_entropy", "pick_class", "place_class"), ("that targets are classes", _always)),
    "probability_entropy": ("that probabilities lie between 0 and 1", _always),
    **{
        division.name: ("that no divisor is 0", _of_integers)
        for division in (P.floor_divide, P.truncated_divide, P.remainder, P.fmod)
    },
    "pow": ("that no exponent is negative", _of_integers),
    **dict.fromkeys(("inverse", "solve"), ("that matrices are not singular", _if("strict"))),
    **dict.fromkeys(("cholesky", "lu_factor", "ldl_factor"), ("that matrices have such factors", _if("checked"))),
    "checked_factor": ("that factors have no 0 on their diagonal", _always),
    **dict.fromkeys(("permutation", "ldl_settled", "ldl_order", "ldl_blocks"), ("that pivots are possible", _always)),
    **dict.fromkeys(
        (
            "pinv", "matrix_rank", "lstsq", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "nuclear_norm",
            "extreme_singular_value",
        ),
        ("that matrices are finite", _always),
    ),
    "within_gauge": ("that a loss depends on no choice", _always),
    "overlap_reciprocal": ("that windows overlap", _always),
    "poisson_quantile": ("that rates are not negative", _always),
    "binomial_quantile": ("that counts and probabilities are possible", _always),
    "weighted_pick": ("that weights are possible", _always),
}  # fmt: skip


def check_of(instruction: Instruction) -> str | None:
    """What an instruction checks of values, if it does."""
    primitive = instruction.primitive
    if getattr(primitive, "checks", None) is not None:
        found: str = primitive.checks
        return found
    known = CHECKS.get(primitive.name)
    if known is None or registry.get(primitive.name) is not primitive:
        return None
    reason, applies = known
    return reason if applies(instruction) else None
