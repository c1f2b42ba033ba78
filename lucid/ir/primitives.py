"""What writes, `detach` and `no_grad` are in a program, where nothing is overwritten; and which primitives may raise."""

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
    linear_in=(0, 1),
)


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


def check_of(instruction: Instruction) -> str | None:
    """What an instruction checks of values, if it does."""
    check = getattr(instruction.primitive, "checks", None)
    if check is None or not check.applies(instruction.results[0].dtype.numpy, instruction.params):
        return None
    what: str = check.what
    return what
