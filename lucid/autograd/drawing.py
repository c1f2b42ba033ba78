"""Pictures of the graph: DOT text, and SVG by a layered layout of its own.

The layout is Sugiyama's: boxes get layers (each below its operands), edges that cross layers get a point in each
of them, barycentres order the layers, and each layer is then moved as close to its neighbours as the order allows.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from lucid.core.node import Node, OutputNode
from lucid.core.primitive import edge_of, synced
from lucid.core.source_lines import is_internal
from lucid.core.tensor import Tensor

_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SIZE, _LINE, _CHAR = 12, 16, 7.4  # text size, line height and width of a character
_PAD, _GAP, _ROWS, _MARGIN = 10, 18, 38, 16
_LONGEST = 36  # characters of one line
_SWEEPS = 12
_STIFFNESS = 6.0  # how much more a bend in a long edge counts than a box that is off its neighbours

# Filled boxes with their own text colour, and edges in mid grey, can be read on light and dark pages alike.
_COLOURS = {
    "leaf": ("#dcefdc", "#4d8f57"),
    "op": ("#e6ebf5", "#6b7fa8"),
    "root": ("#fbe7c6", "#c08a2d"),
}
_TEXT, _FAINT, _EDGE = "#1d2330", "#556074", "#8a93a3"


class Box:
    """One node of a drawing: its lines of text, its kind, and a longer text for the mouse to find."""

    def __init__(self, lines: list[str], kind: str, tip: str) -> None:
        self.lines = lines
        self.kind = kind
        self.tip = tip
        self.dashed = False

    @property
    def width(self) -> float:
        return max(_width(line) for line in self.lines) * _CHAR + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + _PAD


class Drawing:
    """A picture of a graph: `.dot`, `.svg`, and `save(path)`. Jupyter shows it by itself.

    It holds text only, so it keeps no part of the graph alive.
    """

    def __init__(self, boxes: list[Box], edges: list[tuple[int, int]], note: str) -> None:
        self.boxes = boxes
        self.edges = edges  # from operand to result
        self.note = note

    def __repr__(self) -> str:
        note = f": {self.note}" if self.note else ""
        return f"<Drawing of {len(self.boxes)} nodes and {len(self.edges)} edges{note}>"

    def _repr_svg_(self) -> str:
        return self.svg

    @cached_property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        lines = ["digraph {", '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10];']
        if self.note:
            lines.append(f"  label={_quoted(self.note)};")
        for i, box in enumerate(self.boxes):
            fill, border = _COLOURS[box.kind]
            dashed = ', style="rounded,filled,dashed"' if box.dashed else ""
            label = _quoted("\n".join(box.lines))
            lines.append(f'  n{i} [label={label}, fillcolor="{fill}", color="{border}"{dashed}];')
        lines += [f"  n{a} -> n{b};" for a, b in self.edges]
        return "\n".join([*lines, "}", ""])

    @cached_property
    def svg(self) -> str:
        """The picture, complete in itself."""
        return _svg(self.boxes, self.edges, self.note)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, as SVG or DOT by the suffix of its name."""
        path = Path(path)
        if path.suffix not in (".svg", ".dot"):
            suffix = repr(path.suffix) if path.suffix else "a file without suffix"
            raise ValueError(f"a drawing can be saved as .svg or .dot, not as {suffix}")
        path.write_text(self.svg if path.suffix == ".svg" else self.dot, encoding="utf-8")


def draw(
    tensor: Tensor,
    params: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | None = None,
    max_nodes: int = 300,
) -> Drawing:
    """Draw the operations that `tensor` was computed by, with their shapes and the lines that ran them.

    `params` gives names to tensors, as a dict or as pairs. Of a graph with more than `max_nodes` nodes, those nearest
    to `tensor` are drawn; a note says so, and boxes with operands left out have dashed borders.

    >>> import lucid
    >>> w = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> picture = lucid.autograd.graph.draw((w * w).sum(), params={"w": w})
    >>> picture
    <Drawing of 3 nodes and 3 edges>
    >>> picture.save("graph.png")
    Traceback (most recent call last):
    ValueError: a drawing can be saved as .svg or .dot, not as '.png'
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"draw: expected a Tensor, not {type(tensor).__name__}")
    if max_nodes < 1:
        raise ValueError(f"draw: max_nodes must be at least 1, not {max_nodes}")
    names = _names(params)
    if not tensor.requires_grad:
        return Drawing([_leaf_box(tensor, names)], [], "this tensor does not require grad, so it has no graph")
    found = _Found(edge_of(synced(tensor)), max_nodes)
    return found.drawing(names)


def _names(params: Any) -> dict[int, str]:
    """Names by the identity of what edges refer to: a leaf, or the node of a result."""
    pairs = params.items() if isinstance(params, Mapping) else params or ()
    return {id(_subject(edge_of(synced(t)))): name for name, t in pairs}


def _subject(edge: Any) -> Any:
    """What an edge leads to: a leaf or an operation. Outputs of one operation share it."""
    return edge.edges[0] if isinstance(edge, OutputNode) else edge


class _Found:
    """The part of a graph that is nearest to its root, and how much there is in all."""

    def __init__(self, root: Any, max_nodes: int) -> None:
        self.kept: dict[int, Any] = {}
        self.operands: dict[int, list[Any]] = {}
        queue = [_subject(root)]
        seen = {id(queue[0])}
        for subject in queue:  # grows while it is read: breadth first, without recursion
            operands = [_subject(e) for e in getattr(subject, "edges", ()) if e is not None]
            if len(self.kept) < max_nodes:
                self.kept[id(subject)] = subject
                self.operands[id(subject)] = operands
            for operand in operands:
                if id(operand) not in seen:
                    seen.add(id(operand))
                    queue.append(operand)
        self.total = len(queue)

    def drawing(self, names: dict[int, str]) -> Drawing:
        numbers = {key: i for i, key in enumerate(reversed(self.kept))}  # the root comes last
        boxes = [self._box(key, names) for key in numbers]
        boxes[-1].kind = "root" if self.operands[next(iter(self.kept))] else boxes[-1].kind
        edges = [
            (numbers[id(operand)], i)
            for key, i in numbers.items()
            for operand in self.operands[key]
            if id(operand) in numbers
        ]
        note = ""
        if self.total > len(boxes):
            note = f"{len(boxes)} of {self.total} nodes are drawn, those nearest to the result; max_nodes sets how many"
        return Drawing(boxes, edges, note)

    def _box(self, key: int, names: dict[int, str]) -> Box:
        subject = self.kept[key]
        if not subject._seq:
            return _leaf_box(subject, names)
        box = _op_box(subject, names)
        missing = sum(id(operand) not in self.kept for operand in self.operands[key])
        if missing:
            box.lines.append(f"… {missing} operand{'' if missing == 1 else 's'} not drawn")
            box.dashed = True
        return box


def _leaf_box(leaf: Tensor, names: dict[int, str]) -> Box:
    name = names.get(id(leaf))
    about = f"{_shape(leaf.shape)} {leaf.dtype.name}"
    return Box([_short(name), about] if name else [about], "leaf", f"{name or 'leaf'}: {about}")


def _op_box(node: Node, names: dict[int, str]) -> Box:
    shape = _shape(node.shape)
    if node.prim.multi and node.shapes:
        shape = ", ".join("-" if s is None else _shape(s[0]) for s in node.shapes)
    name = names.get(id(node))
    lines = [_short(f"{name} = {node.name()}" if name else node.name()), _short(shape)]
    if is_internal(node.place.filename):
        return Box(lines, "op", node.name())
    place = node.place
    base = place.filename.replace("\\", "/").rsplit("/", 1)[-1]
    return Box([*lines, _short(f"{base}:{place.line}", keep_end=True)], "op", str(place))


def _shape(shape: Any) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


def _short(text: str, keep_end: bool = False) -> str:
    if len(text) <= _LONGEST:
        return text
    return "…" + text[1 - _LONGEST :] if keep_end else text[: _LONGEST - 1] + "…"


def _width(text: str) -> int:
    """The number of columns a text takes in a monospaced font."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class _Layout:
    """Where everything goes. Items are boxes, numbered as given, then the points of edges in layers they cross."""

    def __init__(self, boxes: list[Box], edges: list[tuple[int, int]]) -> None:
        self.boxes = len(boxes)
        self.layer = _layers(self.boxes, edges)
        self.widths = [box.width for box in boxes]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self.routes = [self._route(a, b) for a, b in edges]
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        for item, layer in enumerate(self.layer):
            self.rows[layer].append(item)
        self._order()
        self.x = self._columns()
        self.heights = [max((boxes[i].height for i in row if i < len(boxes)), default=0.0) for row in self.rows]
        self.tops = [_MARGIN + above + i * _ROWS for i, above in enumerate(accumulate(self.heights[:-1], initial=0))]

    def _route(self, a: int, b: int) -> list[int]:
        """The items along one edge, with a new point for each layer between."""
        route = [a]
        for layer in range(self.layer[a] + 1, self.layer[b]):
            route.append(len(self.layer))
            self.layer.append(layer)
            self.widths.append(2.0)
            self.above.append([])
            self.below.append([])
        route.append(b)
        for upper, lower in pairwise(route):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return route

    def _order(self) -> None:
        """Sort each layer by the mean position of the neighbours; keep the order with the fewest crossings."""
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                self._sort(row, self.above if down else self.below)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
            if not fewest:
                break
        self.rows = best

    def _sort(self, row: list[int], neighbours: list[list[int]]) -> None:
        near = {n for item in row for n in neighbours[item]}
        layers = {self.layer[n] for n in near}
        at = {item: i for layer in layers for i, item in enumerate(self.rows[layer])}
        own = {item: i for i, item in enumerate(row)}
        row.sort(key=lambda i: (_mean([at[n] for n in neighbours[i]], own[i]), own[i]))

    def _crossings(self) -> int:
        return sum(self._crossings_between(a, b) for a, b in pairwise(self.rows))

    def _crossings_between(self, upper: list[int], lower: list[int]) -> int:
        """Pairs of edges in opposite order at their two ends, counted with a binary indexed tree."""
        at = {item: i + 1 for i, item in enumerate(lower)}
        ends = [end for item in upper for end in sorted(at[n] for n in self.below[item])]
        tree = [0] * (len(lower) + 1)
        count = 0
        for seen, end in enumerate(ends):
            not_after = 0
            i = end
            while i:
                not_after += tree[i]
                i &= i - 1
            count += seen - not_after
            i = end
            while i < len(tree):
                tree[i] += 1
                i += i & -i
        return count

    def _columns(self) -> list[float]:
        """Centres: from packed rows, each row moves towards its neighbours above, then below, and so on."""
        x = [0.0] * len(self.layer)
        both = [a + b for a, b in zip(self.above, self.below, strict=True)]
        for row in self.rows:
            self._place(row, x, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                near = self.above if down else self.below
                if sweep >= _SWEEPS - 2:  # at the end both sides count, which centres boxes between them
                    near = both
                self._place(row, x, [_mean([x[n] for n in near[i]], x[i]) for i in row])
        left = min(x[i] - self.widths[i] / 2 for i in range(len(x)))
        return [c - left + _MARGIN for c in x]

    def _place(self, row: list[int], x: list[float], wanted: list[float]) -> None:
        """The centres nearest to `wanted` (least squares) that keep the order and the gaps.

        With the gaps subtracted, the centres must not decrease: pool neighbours that would, until none does.
        """
        offsets = [0.0]
        for a, b in pairwise(row):
            offsets.append(offsets[-1] + (self.widths[a] + self.widths[b]) / 2 + _GAP)
        pools: list[tuple[float, float, int]] = []  # weighted sum, weight and count
        for item, want, offset in zip(row, wanted, offsets, strict=True):
            weight = _STIFFNESS if item >= self.boxes else 1.0
            total, count = (want - offset) * weight, 1
            while pools and pools[-1][0] * weight >= total * pools[-1][1]:
                above = pools.pop()
                total, weight, count = total + above[0], weight + above[1], count + above[2]
            pools.append((total, weight, count))
        centres = [total / weight for total, weight, count in pools for _ in range(count)]
        for item, centre, offset in zip(row, centres, offsets, strict=True):
            x[item] = centre + offset


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _layers(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """The longest path to each box, which then sinks towards its users where that makes no edge longer in sum."""
    operands: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        operands[b].append(a)
        users[a].append(b)
    layer = [0] * count
    waiting = [len(o) for o in operands]
    ready = [i for i in range(count) if not waiting[i]]
    for i in ready:  # grows while it is read, into a topological order
        for user in users[i]:
            layer[user] = max(layer[user], layer[i] + 1)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    for i in reversed(ready):
        if users[i] and len(operands[i]) <= len(users[i]):
            layer[i] = min(layer[u] for u in users[i]) - 1
    return layer


def _svg(boxes: list[Box], edges: list[tuple[int, int]], note: str) -> str:
    layout = _Layout(boxes, list(dict.fromkeys(edges)))
    width = max(x + w / 2 for x, w in zip(layout.x, layout.widths, strict=True)) + _MARGIN
    height = layout.tops[-1] + layout.heights[-1] + _MARGIN
    banner = []
    if note:
        width = max(width, _width(note) * _CHAR + 2 * _PAD + 2 * _MARGIN)
        banner = _note(note, height)
        height += _LINE + _PAD + _MARGIN
    body = [
        *(_path(route, layout, boxes) for route in layout.routes),
        *(_rectangle(i, box, layout) for i, box in enumerate(boxes)),
        *banner,
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FONT}" font-size="{_SIZE}" text-anchor="middle">',
        f'<defs><marker id="lucid-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="{_EDGE}"/></marker></defs>',
        *body,
        "</svg>",
        "",
    ])  # fmt: skip


def _path(route: list[int], layout: _Layout, boxes: list[Box]) -> str:
    """One edge: curves between layers, straight lines through the layers that it only crosses."""
    first = route[0]
    x, y = layout.x[first], layout.tops[layout.layer[first]] + boxes[first].height
    steps = [f"M{x:.1f} {y:.1f}"]
    bottom = layout.tops[layout.layer[first]] + layout.heights[layout.layer[first]]
    if bottom > y:
        steps.append(f"V{bottom:.1f}")
    for item in route[1:]:
        row = layout.layer[item]
        start, end, at = bottom, layout.tops[row], layout.x[item]
        middle = (start + end) / 2
        steps.append(f"C{x:.1f} {middle:.1f} {at:.1f} {middle:.1f} {at:.1f} {end:.1f}")
        x, bottom = at, end + layout.heights[row]
        if item != route[-1]:
            steps.append(f"V{bottom:.1f}")
    return (
        f'<path d="{"".join(steps)}" fill="none" stroke="{_EDGE}" stroke-width="1.3" marker-end="url(#lucid-arrow)"/>'
    )


def _rectangle(i: int, box: Box, layout: _Layout) -> str:
    fill, border = _COLOURS[box.kind]
    x, y = layout.x[i], layout.tops[layout.layer[i]]
    dashes = ' stroke-dasharray="5 3"' if box.dashed else ""
    title = f"<title>{escape(box.tip)}</title>" if box.tip else ""
    rect = (
        f'<rect x="{x - box.width / 2:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{7 if box.kind != "leaf" else 13}" fill="{fill}" stroke="{border}" stroke-width="1.3"{dashes}/>'
    )
    texts = [_text(line, x, y + (k + 1) * _LINE + 1, k == 0) for k, line in enumerate(box.lines)]
    return f"<g>{title}{rect}{''.join(texts)}</g>"


def _text(line: str, x: float, y: float, bold: bool) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{_TEXT if bold else _FAINT}"{weight}>{escape(line)}</text>'


def _note(note: str, y: float) -> list[str]:
    fill, border = _COLOURS["root"]
    width = _width(note) * _CHAR + 2 * _PAD
    place = f'x="{_MARGIN + _PAD}" y="{y + _LINE + 1:.1f}"'
    return [
        f'<g><rect x="{_MARGIN}" y="{y:.1f}" width="{width:.1f}" height="{_LINE + _PAD}" rx="4" fill="{fill}" '
        f'stroke="{border}" stroke-dasharray="5 3"/>'
        f'<text {place} text-anchor="start" fill="{_TEXT}">{escape(note)}</text></g>'
    ]
