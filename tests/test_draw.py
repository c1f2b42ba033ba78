"""Drawings are valid, complete and always the same."""

import gc
import re
import weakref
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

import lucid
from lucid.autograd import Function
from lucid.autograd.drawing import _Layout, draw

SVG = "{http://www.w3.org/2000/svg}"


def network(depth=2):
    rng = np.random.default_rng(0)
    params = {}
    for i in range(depth):
        params[f"layer{i}.weight"] = lucid.tensor(rng.standard_normal((4, 4)), requires_grad=True)
        params[f"layer{i}.bias"] = lucid.tensor(rng.standard_normal(4), requires_grad=True)
    h = lucid.ones(3, 4)
    for i in range(depth):
        h = h + (h @ params[f"layer{i}.weight"] + params[f"layer{i}.bias"]).tanh()
    return (h * h).sum(), params


def texts(drawing):
    return [t.text for t in ET.fromstring(drawing.svg).iter(f"{SVG}text")]


def rectangles(drawing):
    found = ET.fromstring(drawing.svg).iter(f"{SVG}rect")
    return [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in found]


def test_small_graph():
    x = lucid.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    y = x.exp()
    drawing = draw(y.sum(), {"input": x})
    assert len(drawing.boxes) == 3
    assert texts(drawing).count("exp") == 1
    shown = texts(drawing)
    for expected in ("input", "(1, 3) float32", "exp", "(1, 3)", "sum", "()"):
        assert expected in shown
    line = test_small_graph.__code__.co_firstlineno + 2
    assert f"test_draw.py:{line}" in shown
    assert f"test_draw.py:{line + 1}" in shown


def test_edges_point_from_operands_to_results():
    x = lucid.tensor([1.0], requires_grad=True)
    drawing = draw((x * x).exp())
    names = [box.lines[0] for box in drawing.boxes]
    assert [(names[a], names[b]) for a, b in drawing.edges] == [("(1,) float32", "mul")] * 2 + [("mul", "exp")]
    assert drawing.boxes[-1].kind == "root"


def test_all_nodes_and_edges_are_drawn():
    loss, params = network(5)
    drawing = draw(loss, params)
    root = ET.fromstring(drawing.svg)
    assert len(list(root.iter(f"{SVG}rect"))) == len(drawing.boxes)
    assert len([p for p in root.iter(f"{SVG}path") if p.get("stroke")]) == len(set(drawing.edges))
    assert set(params) <= set(texts(drawing))
    for i in range(len(drawing.boxes)):
        assert f"  n{i} [" in drawing.dot
    assert drawing.dot.count("->") == len(drawing.edges)


def test_dot():
    x = lucid.tensor([1.0], requires_grad=True)
    dot = draw(x.exp(), {'a "quoted" name': x}).dot
    assert dot.startswith("digraph {") and dot.endswith("}\n")
    assert r'label="a \"quoted\" name\n(1,) float32"' in dot
    assert "n0 -> n1;" in dot


def test_names_are_escaped():
    x = lucid.tensor([1.0], requires_grad=True)
    assert "<&>" in texts(draw(x.exp(), {"<&>": x}))


def test_names_from_pairs_and_for_results():
    x = lucid.tensor([1.0], requires_grad=True)
    y = x.exp()
    shown = texts(draw(y.sum(), [("x", x), ("y", y)]))
    assert "x" in shown and "y = exp" in shown


def test_no_boxes_overlap_and_text_fits():
    drawing = draw(*network(8))
    boxes = rectangles(drawing)
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    for box in drawing.boxes:
        # Monospaced fonts are 0.6 em wide, give or take 1%.
        assert max(len(line) for line in box.lines) * 12 * 0.61 < box.width
    width, height = (float(ET.fromstring(drawing.svg).get(k)) for k in ("width", "height"))
    assert all(x >= 0 and x + w <= width and y >= 0 and y + h <= height for x, y, w, h in boxes)


def test_operands_are_above_results():
    drawing = draw(*network(4))
    boxes = rectangles(drawing)
    assert all(boxes[a][1] + boxes[a][3] < boxes[b][1] for a, b in drawing.edges)


def test_long_edges_pass_beside_boxes():
    drawing = draw(*network(6))
    layout = _Layout(drawing.boxes, list(dict.fromkeys(drawing.edges)))
    for row in layout.rows:
        for a, b in pairwise(row):
            assert layout.x[a] + layout.widths[a] / 2 < layout.x[b] - layout.widths[b] / 2


def test_no_needless_crossings():
    x = lucid.tensor([1.0], requires_grad=True)
    a, b, c = x.exp(), x.sin(), x.cos()
    drawing = draw(c.exp() + (b.exp() + a.exp()))
    assert _Layout(drawing.boxes, list(dict.fromkeys(drawing.edges)))._crossings() == 0


def test_cut_at_max_nodes():
    loss, params = network(10)
    whole = draw(loss, params)
    drawing = draw(loss, params, max_nodes=12)
    assert len(drawing.boxes) == 12
    note = f"12 of {len(whole.boxes)} nodes are drawn"
    assert any(t.startswith(note) for t in texts(drawing))
    assert note in drawing.dot and note in repr(drawing)
    assert any(t.endswith("not drawn") for t in texts(drawing))
    assert any(box.dashed for box in drawing.boxes)
    assert not whole.note and not any(box.dashed for box in whole.boxes)


def test_huge_graphs_need_no_recursion():
    x = lucid.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    drawing = draw(y, max_nodes=50)
    assert len(drawing.boxes) == 50 and "of 20001 nodes" in drawing.note


def test_hundreds_of_nodes():
    drawing = draw(*network(40))
    assert 200 < len(drawing.boxes) <= 300
    ET.fromstring(drawing.svg)


def test_always_the_same():
    first, second = (draw(*network(6)) for _ in range(2))
    assert first.svg == second.svg and first.dot == second.dot


def test_several_outputs_are_one_box():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.sum()

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h

    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    a, b = Pair.apply(x)
    drawing = draw((a * b).sum())
    shown = texts(drawing)
    assert shown.count("Pair") == 1 and "(2,), ()" in shown


def test_leaf_and_tensor_without_graph():
    x = lucid.tensor([1.0], requires_grad=True)
    assert texts(draw(x, {"x": x})) == ["x", "(1,) float32"]
    drawing = draw(lucid.tensor([1.0, 2.0]))
    assert "(2,) float32" in texts(drawing) and "does not require grad" in drawing.note


def test_save(tmp_path):
    drawing = draw(*network())
    for suffix, text in ((".svg", drawing.svg), (".dot", drawing.dot)):
        path = tmp_path / f"graph{suffix}"
        drawing.save(path)
        assert path.read_text(encoding="utf-8") == text
        drawing.save(str(path))
    with pytest.raises(ValueError, match=r"\.svg or \.dot, not as '\.png'"):
        drawing.save(tmp_path / "graph.png")
    with pytest.raises(ValueError, match="without suffix"):
        drawing.save(tmp_path / "graph")


def test_jupyter_and_self_contained():
    drawing = draw(*network())
    assert drawing._repr_svg_() == drawing.svg
    assert not re.search(r"href|@import|<image|<script", drawing.svg)


def test_drawing_keeps_no_graph_alive():
    gc.disable()
    try:
        x = lucid.tensor([1.0], requires_grad=True)
        y = x.exp()
        drawing = draw(y)
        refs = [weakref.ref(x), weakref.ref(y), weakref.ref(y.grad_fn)]
        del x, y
        assert all(r() is None for r in refs) and len(drawing.boxes) == 2
    finally:
        gc.enable()


def test_bad_arguments():
    with pytest.raises(TypeError, match="expected a Tensor, not int"):
        draw(3)
    with pytest.raises(ValueError, match="max_nodes"):
        draw(lucid.tensor([1.0], requires_grad=True), max_nodes=0)


def test_long_names_are_shortened():
    x = lucid.tensor([1.0], requires_grad=True)
    drawing = draw(x.exp(), {"encoder." * 12 + "weight": x})
    assert max(len(line) for box in drawing.boxes for line in box.lines) <= 36
    assert "encoder." * 12 in drawing.svg  # the whole name is in the tooltip
