"""Other names that users know operations by."""

from typing import Any

# By the name of the operation; in-place forms follow.
_OTHERS = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "chunk": "unsafe_chunk",
    "clamp": "clip",
    "conj": "conjugate conj_physical",
    "div": "divide",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "outer": "ger",
    "split": "unsafe_split",
    "sub": "subtract",
    "transpose": "swapaxes swapdims",
    "trunc": "fix",
}
ALIASES = {alias: name for name, aliases in _OTHERS.items() for alias in aliases.split()}


def with_aliases(table: dict[str, Any]) -> dict[str, Any]:
    """A table of functions by name with the other names of those that are in it, in-place forms too."""
    others = {alias + s: table[name + s] for alias, name in ALIASES.items() for s in ("", "_") if name + s in table}
    return {**others, **table}
