"""A picture of what became of a program: its instructions on the left, and on the right the steps that do them."""

from html import escape
from typing import Any

from lucid.compiler.emit import Emitter
from lucid.compiler.fuse import CALL, CHECK, ELEMENTS, FOLD, PRODUCT, ROWS, Group
from lucid.ir.printing import type_of
from lucid.ir.program import Program

_LINE, _LEFT, _RIGHT, _WIDTH, _BOX = 18, 10, 360, 640, 270  # pixels
_COLORS = {ELEMENTS: "#cfe8d5", ROWS: "#cfe0f3", FOLD: "#f5e6b8", PRODUCT: "#e3d4f0", CALL: "#f3cfcf"}
_WORDS = {
    ELEMENTS: "loop over elements",
    ROWS: "loop over rows",
    FOLD: "reduction",
    PRODUCT: "product of matrices",
    CALL: "call of a kernel",
    CHECK: "check",
}


def picture(program: Program) -> str:
    """The picture, as SVG."""
    emitter = Emitter(program)
    groups, order = emitter.order, emitter.fused.order
    left = [i for group in groups for i in (*group.instructions, *group.folds)]
    heights = [_LINE * (1 + len(group.instructions) + len(group.folds)) for group in groups]
    rows = {id(i): k for k, i in enumerate(sorted(left, key=lambda i: order[id(i)]))}
    parts: list[str] = []
    top = 30
    for group, height in zip(groups, heights, strict=True):
        parts += _box(group, top, height)
        for k, instruction in enumerate((*group.instructions, *group.folds)):
            start = 30 + _LINE * rows[id(instruction)] + 5
            end = top + _LINE * (k + 1) + 9
            parts.append(
                f'<path d="M {_LEFT + _BOX} {start} C {_RIGHT - 40} {start}, {_RIGHT - 40} {end}, {_RIGHT} {end}" '
                f'fill="none" stroke="{_color(group)}" stroke-width="2"/>'
            )
        top += height + 8
    for instruction in left:
        y = 30 + _LINE * rows[id(instruction)] + 9
        parts.append(_text(_LEFT, y, _described(instruction)))
    height = max(top, 40 + _LINE * len(left))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11">'
    )
    titles = [_text(_LEFT, 16, f"{program.name}: instructions", True), _text(_RIGHT, 16, "what runs", True)]
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{height}" fill="white"/>', *titles, *parts, "</svg>\n"])


def _color(group: Group) -> str:
    return _COLORS.get(group.kind, "#dddddd")


def _box(group: Group, top: int, height: int) -> list[str]:
    shape = f" {list(group.shape)}" if group.shape is not None else ""
    found = [
        f'<rect x="{_RIGHT}" y="{top}" width="{_BOX}" height="{height}" rx="4" fill="{_color(group)}"/>',
        _text(_RIGHT + 6, top + 13, _WORDS.get(group.kind, "copies") + shape, True),
    ]
    for k, instruction in enumerate((*group.instructions, *group.folds)):
        found.append(_text(_RIGHT + 14, top + _LINE * (k + 1) + 13, instruction.primitive.name))
    return found


def _described(instruction: Any) -> str:
    made = ", ".join(type_of(r) for r in instruction.results[:1])
    return f"{instruction.primitive.name} → {made}" if made else instruction.primitive.name


def _text(x: int, y: int, text: str, is_bold: bool = False) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    return f'<text x="{x}" y="{y}"{weight}>{escape(text)}</text>'
