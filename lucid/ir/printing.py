"""How programs print."""

from typing import Any

from lucid.core.tensor import Tensor
from lucid.ir.values import Instruction, Name


def text_of(program: Any) -> str:
    """A program, one line for each instruction, with its effects behind it."""
    lines = [f"{program.name}({', '.join(typed(n) for n in program.inputs)}):"]
    lines += [f"  {typed(n)} = captured" for n, _ in program.captured]
    lines += [f"  {typed(n)} = constant {_brief(t)}" for n, t in program.constants]
    names = {id(t): str(n) for n, t in program.captured}
    noted: dict[int, list[str]] = {}
    for kind, place, target in program.effects:
        if kind != "read":
            noted.setdefault(place, []).append(f"{kind}s {names.get(id(target)) or getattr(target, 'name', target)}")
    for place, instruction in enumerate(program.instructions):
        effects = noted.get(place)
        lines.append(f"  {_line(instruction)}" + (f"  # {'; '.join(effects)}" if effects else ""))
    lines.append(f"  return {', '.join(map(str, program.outputs))}")
    return "\n".join(lines)


def type_of(name: Name) -> str:
    """Type and shape, as float32[2, 3]."""
    return f"{name.dtype.name}{list(name.shape)}"


def typed(name: Name) -> str:
    """A name with its type."""
    return f"{name}: {type_of(name)}"


def _line(instruction: Instruction) -> str:
    operands = [str(o) if isinstance(o, Name) else repr(o) for o in instruction.operands]
    params = " ".join(f"{k}={_value(v)}" for k, v in instruction.params.items())
    words = [instruction.primitive.name, *operands, *([f"[{params}]"] if params else [])]
    results = ", ".join(typed(n) for n in instruction.results)
    return (f"{results} = " if results else "") + " ".join(words)


def _value(value: Any) -> str:
    if hasattr(value, "name"):
        return str(value.name)
    if isinstance(value, slice):
        return ":".join("" if v is None else str(v) for v in (value.start, value.stop))
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_value(v) for v in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_value(v)}" for k, v in value.items()) + "}"
    return str(value)


def _brief(tensor: Tensor) -> str:
    return str(tensor.tolist()) if type(tensor) is Tensor and tensor.numel() <= 4 else "..."
