"""Programs as plain data that JSON can hold, with the arrays of their constants beside it, and back.

Values are numbered in the order in which they are made: inputs, captured values, constants, then the results of each
instruction. A result says its type and shape, and an operand `{"value": n}` is a value made before. Parameters are of the
kinds in `FORMS` and nothing else. JSON arrays stand for tuples; what JSON does not have is an object with one tag:
`{"slice": [0, 2, null]}`, `{"dtype": "float32"}`, `{"contraction": ["ij", "jk", "ik", false, false]}`.

Reading builds values of these kinds alone, runs nothing, and checks everything (`validation`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes, tree
from lucid.core.primitive import Primitive
from lucid.core.source_lines import here
from lucid.core.tensor import Tensor
from lucid.ir.effects import Write
from lucid.ir.primitives import DETACH, OTHER_VALUE, UNRECORDED_VALUE
from lucid.ir.printing import type_of
from lucid.ir.program import INPUT, Program
from lucid.ir.trace import UserCode
from lucid.ir.validation import ExportError, declared, raise_unless_possible, raise_unless_size
from lucid.ir.values import Instruction, Name
from lucid.ops.contraction import Labels, labelled
from lucid.ops.fused import Fused, Gradient, gradient_of
from lucid.ops.nn.convolution import Geometry
from lucid.ops.nn.resampling import AxisMap

MAX_DEPTH = 50  # of parameters, of arguments and results, and of programs inside of programs
_EXACT = 1 << 63
_TYPES = {t.name: t for t in dtypes.ALL}
_ARRAY_TYPES = {t.name: t.numpy for t in dtypes.ALL}
_LEAF = object()
_OF_PROGRAMS = {p.name: p for p in (DETACH, UNRECORDED_VALUE, OTHER_VALUE)}
Node = Any


class Form(NamedTuple):
    """How values of a kind are written: as the contents of an object with a tag."""

    tag: str
    kind: type
    write: Callable[[Any, "Writer"], Node]
    read: Callable[[Node, Any], Any]  # the second reads what stands inside


class Writer:
    """Turns a program into plain data, and collects the arrays of its constants.

    `names` are those of captured tensors, by identity, such as `layer.weight`.
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self.arrays: dict[str, Any] = {}
        self._names = names or {}

    def program(self, program: Program, depth: int = 0) -> Node:
        """The whole program; what it captured becomes constants, with the values of now."""
        if depth == 0:
            constants, captured = [*program.captured, *program.constants], []
        else:  # a branch or loop is given these values
            constants, captured = [*program.constants], [n for n, _ in program.captured]
        numbers: dict[int, int] = {}
        for name in (*program.inputs, *captured, *[n for n, _ in constants]):
            numbers[name.number] = len(numbers)
        makers: dict[int, Instruction] = {}
        instructions = []
        for instruction in program.instructions:
            instructions.append(self._instruction(instruction, numbers, makers, depth))
            for name in instruction.results:
                numbers[name.number] = len(numbers)
                makers[name.number] = instruction
        arguments, results = program._arguments, program._results
        return {
            "name": program.name,
            "inputs": [_typed(n) for n in program.inputs],
            "captured": [_typed(n) for n in captured],
            "constants": [self._stored(t, n) for n, t in constants],
            "instructions": instructions,
            "outputs": [self._operand(o, numbers, f"a result of {program.name}") for o in program.outputs],
            "arguments": self._nest(arguments, "the arguments") if depth == 0 else None,
            "results": self._nest(results, "the results") if depth == 0 else None,
            "static": [self._static(s) for s in program._static] if depth == 0 else [],
        }

    def _instruction(
        self, instruction: Instruction, numbers: Mapping[int, int], makers: Mapping[int, Instruction], depth: int
    ) -> Node:
        what, operands, params, results, place = instruction
        _raise_unless_writable(instruction, makers)
        try:
            node = {
                "primitive": _primitive_name(what),
                "operands": [self._operand(o, numbers, f"an operand of `{what.name}`") for o in operands],
                "parameters": {k: self.value(v, f"`{k}` of `{what.name}`") for k, v in params.items()},
                "results": [_typed(n) for n in results],
            }
        except ExportError as error:
            raise ExportError(f"export: at {place}: {error}") from None
        if what.name in FLOW and isinstance(what, FLOW[what.name]):
            node["programs"] = [self.program(p, depth + 1) for p in what.programs]
        return node

    def _operand(self, operand: Any, numbers: Mapping[int, int], where: str) -> Node:
        if isinstance(operand, Name):
            return {"value": numbers[operand.number]}
        return self.value(operand, where)

    def _stored(self, tensor: Tensor, name: Name) -> Node:
        array = np.array(tensor._concrete("export()"), order="C")  # a copy: what was captured may change
        plain = self._names.get(id(tensor)) or f"constant.{name}"
        unique, number = plain, 1
        while unique in self.arrays:
            number += 1
            unique = f"{plain}~{number}"
        self.arrays[unique] = array
        return {"array": unique, **_typed(name)}

    def _static(self, value: Any) -> Node:
        if value is INPUT:
            return {"input": True}
        return self.value(value, "an argument that is no tensor")

    def _nest(self, structure: tree.Structure, where: str) -> Node:
        return self.value(structure.unflatten([_LEAF] * structure.count), where)

    def value(self, value: Any, where: str = "a value") -> Node:
        """A parameter, or another value that is no tensor."""
        if value is None or type(value) in (bool, str):
            return value
        if value is _LEAF:
            return {"leaf": True}
        if isinstance(value, tuple) and type(value) is not tuple and not hasattr(value, "_fields"):
            value = tuple(value)  # as the sizes of a front door are
        form = _BY_KIND.get(type(value)) or next(
            (f for f in FORMS if f.kind in _BASES and isinstance(value, f.kind)), None
        )
        if form is None:
            raise ExportError(
                f"{where} is a {type(value).__name__}, which a file cannot hold; it can hold numbers, strings, None, "
                "dtypes, slices, and dicts, lists and tuples of these"
            )
        written = form.write(value, self)
        return written if form.tag == "" else {form.tag: written}


def _raise_unless_writable(instruction: Instruction, makers: Mapping[int, Instruction]) -> None:
    """Refuse what needs the Python or the tensors that the function had."""
    what, place = instruction.primitive, instruction.place
    if isinstance(what, UserCode):
        raise ExportError(
            f"export: `{what.name}` at {place} is a function with Python code of its own (a custom Function, custom_vjp, "
            "custom_jvp, compiler.disable, or a call back), which a file cannot hold; write it with tensor operations"
        )
    if isinstance(what, Write):
        made = makers.get(instruction.operands[1].number)
        raise ExportError(
            f"export: at {place if made is None else made.place} a tensor from outside of the function is written, and a "
            "file has no tensors outside; return the new value, or, for the statistics of a module in training, call "
            "eval() before"
        )


def _typed(name: Name) -> dict[str, Any]:
    return {"dtype": name.dtype.name, "shape": list(name.shape)}


def _primitive_name(what: Any) -> Node:
    """By what a primitive is found again; a derivative of a fused one by its parts."""
    if isinstance(what, Gradient):
        return {"gradient": [what.of.name, list(what.needs)]}
    name: str = what.name
    if (name in FLOW and isinstance(what, FLOW[name])) or _found(name) is what:
        return name
    raise ExportError(f"`{name}` is no instruction that a file can hold")


def _found(name: str) -> Any:
    return INSTRUCTIONS.get(name) or _OF_PROGRAMS.get(name) or declared(name)


class Reader:
    """Turns plain data back into a program. `array(name, dtype)` gives arrays; `memory` limits what a run may take."""

    def __init__(self, array: Callable[[str, Any], Any], memory: int) -> None:
        self._array = array
        self._memory = memory
        self._place = here()

    def program(self, node: Node, depth: int = 0) -> Program:
        """The program, if it is one that a trace could have written; otherwise an ExportError."""
        if depth > MAX_DEPTH:
            raise ExportError(f"programs are nested more than {MAX_DEPTH} deep")
        fields = _fields(node, "a program", _PROGRAM_FIELDS)
        if type(fields["name"]) is not str:
            raise ExportError("the name of a program is no string")
        names: list[Name] = []

        def new(items: Any, what: str) -> list[Name]:
            made = [self._name(n, len(names) + i) for i, n in enumerate(_items(items, what))]
            names.extend(made)
            return made

        inputs = new(fields["inputs"], "inputs")
        captured = [(n, _stand_in(n)) for n in new(fields["captured"], "captured values")]
        if captured and not depth:
            raise ExportError("a program that stands by itself captures values")
        constants = [
            (n, self._constant(n, c))
            for n, c in zip(new(fields["constants"], "constants"), fields["constants"], strict=True)
        ]
        instructions = []
        for number, item in enumerate(_items(fields["instructions"], "instructions")):
            try:
                instructions.append(self._instruction(item, names, depth))
            except ExportError as error:
                label = item.get("primitive") if isinstance(item, dict) else None
                raise ExportError(f"instruction {number} (`{label!s:.40}`): {error}") from None
        outputs = [self._operand(o, names) for o in _items(fields["outputs"], "outputs")]
        structures = self._structures(fields, len(inputs), len(outputs)) if depth == 0 else (None, None, [])
        program = Program(fields["name"], inputs, captured, constants, instructions, outputs, structures)
        raise_unless_size(program, self._memory)
        return program

    def _structures(self, fields: dict[str, Any], inputs: int, outputs: int) -> tuple[Any, Any, list[Any]]:
        nests = [self.value(fields[k]) for k in ("arguments", "results")]
        arguments, results = (tree.flatten(nest)[1] for nest in nests)
        args = nests[0]
        if not (type(args) is tuple and len(args) == 2 and type(args[0]) is tuple and type(args[1]) is dict):
            raise ExportError("the arguments are no pair of a tuple and a dict")
        if not all(type(k) is str for k in args[1]):
            raise ExportError("a keyword argument has a name that is no string")
        static = [INPUT if n == {"input": True} else self.value(n) for n in _items(fields["static"], "static")]
        if len(static) != arguments.count or sum(s is INPUT for s in static) != inputs:
            raise ExportError(f"the arguments have {arguments.count} parts, and {inputs} of them should be tensors")
        if results.count != outputs:
            raise ExportError(f"the results have {results.count} parts, but there are {outputs}")
        if any(leaf is not _LEAF for nest in nests for leaf in tree.flatten(nest)[0]):
            raise ExportError("the structure of arguments or results holds values")
        return arguments, results, static

    def _name(self, node: Node, number: int) -> Name:
        if not isinstance(node, dict) or node.get("dtype") not in _TYPES:
            raise ExportError("a value has no known type")
        return Name(number, _shape(node.get("shape")), _TYPES[node["dtype"]])

    def _constant(self, name: Name, node: dict[str, Any]) -> Tensor:
        array = self._array(_string(node.get("array")), name.dtype.numpy)
        if array.dtype != name.dtype.numpy or array.shape != name.shape:
            raise ExportError(f"array {node['array']!r} is {array.dtype}{list(array.shape)}, not {type_of(name)}")
        return Tensor._wrap(array)

    def _instruction(self, node: Node, names: list[Name], depth: int) -> Instruction:
        fields = _fields(node, "an instruction", _INSTRUCTION_FIELDS)
        what = self._primitive(fields, depth)
        operands = tuple([self._operand(o, names) for o in _items(fields["operands"], "operands")])
        if not isinstance(fields["parameters"], dict):
            raise ExportError("its parameters are no object")
        params = {k: self.value(v) for k, v in fields["parameters"].items()}
        results = [self._name(n, len(names) + i) for i, n in enumerate(_items(fields["results"], "results"))]
        made = Instruction(what, operands, params, tuple(results), self._place)
        raise_unless_possible(made)
        names.extend(results)
        return made

    def _primitive(self, fields: dict[str, Any], depth: int) -> Any:
        node = fields["primitive"]
        if isinstance(node, dict):
            return self._gradient(node)
        name = _string(node)
        if "programs" in fields:
            if name not in FLOW:
                raise ExportError("it has programs, but is no branch or loop")
            programs = [self.program(p, depth + 1) for p in _items(fields["programs"], "programs")]
            if len(programs) != 2:
                raise ExportError(f"a branch or loop has two programs, not {len(programs)}")
            return FLOW[name](*programs)
        found = _found(name)
        if found is None:
            raise ExportError(f"this version of Lucid has no primitive {name[:80]!r}")
        return found

    def _gradient(self, node: Node) -> Gradient:
        _single(node, "gradient")
        of, needs = _items(node["gradient"], "a derivative", 2)
        primitive = declared(_string(of))
        if not isinstance(primitive, Fused):
            raise ExportError(f"there is no fused primitive {of[:80]!r}")
        needed = tuple(_items(needs, "what is differentiated", len(primitive.operands)))
        if not all(type(n) is bool for n in needed) or not any(needed):
            raise ExportError("a derivative is by no operand")
        return gradient_of(primitive, needed)

    def _operand(self, node: Node, names: Sequence[Name]) -> Any:
        if not isinstance(node, dict) or "value" not in node:
            return self.value(node)
        _single(node, "value")
        number = node["value"]
        if type(number) is not int or not 0 <= number < len(names):
            raise ExportError(f"it uses value {number!r:.40}, which is not made before")
        return names[number]

    def value(self, node: Node, depth: int = 0) -> Any:
        """A parameter, or another value that is no tensor."""
        if node is None or type(node) in (bool, int, str):
            return node
        if type(node) is float:
            if not math.isfinite(node):
                raise ExportError(f"{node} is not written as JSON has it")
            return node
        if depth > MAX_DEPTH:
            raise ExportError(f"values are nested more than {MAX_DEPTH} deep")
        if type(node) is list:
            return tuple([self.value(n, depth + 1) for n in node])
        tag = next(iter(node), None)
        if tag == "leaf":
            return _LEAF
        form = _BY_TAG.get(tag) if isinstance(tag, str) else None
        if form is None or len(node) != 1:
            raise ExportError(f"a value has the unknown tag {tag!r:.80}; a newer version may have written it")
        return form.read(node[tag], _Deeper(self, depth + 1))


class _Deeper:
    """A reader of what stands inside of a value."""

    def __init__(self, reader: Reader, depth: int) -> None:
        self._reader, self._depth = reader, depth

    def value(self, node: Node) -> Any:
        return self._reader.value(node, self._depth)


_PROGRAM_FIELDS = frozenset("name inputs captured constants instructions outputs arguments results static".split())
_INSTRUCTION_FIELDS = frozenset("primitive operands parameters results".split())


def _fields(node: Node, what: str, expected: frozenset[str]) -> dict[str, Any]:
    if not isinstance(node, dict) or node.keys() - {"programs"} != expected:
        raise ExportError(f"{what} must have {', '.join(sorted(expected))}")
    return node


def _single(node: dict[str, Any], tag: str) -> None:
    if node.keys() != {tag}:
        raise ExportError(f"there is more than one tag beside {tag!r}")


def _items(node: Node, what: str, count: int | None = None) -> list[Any]:
    if type(node) is not list or (count is not None and len(node) != count):
        raise ExportError(f"{what}: expected a list{'' if count is None else f' of {count}'}")
    return node


def _string(node: Node) -> str:
    if type(node) is not str:
        raise ExportError(f"expected a name, not {node!r:.80}")
    return node


def _shape(node: Node) -> tuple[int, ...]:
    shape = tuple(_items(node, "a shape"))
    if len(shape) > 64 or not all(type(n) is int and 0 <= n < _EXACT for n in shape):
        raise ExportError(f"{shape!r:.80} is no shape")
    return shape


def _stand_in(name: Name) -> Tensor:
    """What a program inside of another one captured: it is given the value when it runs."""
    return Tensor._wrap(np.broadcast_to(np.zeros((), name.dtype.numpy), name.shape))


# --- kinds of values -----------------------------------------------------------------------------


def _float(node: Node) -> float:
    if node not in ("inf", "-inf", "nan"):
        raise ExportError(f"{node!r:.80} is no number")
    return float(node)


def _parts(node: Node, reader: Any, count: int | None = None) -> list[Any]:
    return [reader.value(n) for n in _items(node, "the parts of a value", count)]


def _typed_parts(node: Node, reader: Any, *kinds: type | tuple[type, ...]) -> list[Any]:
    parts = _parts(node, reader, len(kinds))
    for part, kind in zip(parts, kinds, strict=True):
        if not isinstance(part, kind) or (kind is int and isinstance(part, bool)):
            raise ExportError(f"{part!r:.80} is of the wrong kind")
    return parts


def _big(node: Node) -> int:
    if type(node) is not str or len(node) > 64:
        raise ExportError(f"{node!r:.80} is no number")
    try:
        return int(node, 16)
    except ValueError:
        raise ExportError(f"{node!r:.80} is no number") from None


def _read_dict(node: Node, reader: Any) -> dict[Any, Any]:
    pairs = [_parts(pair, reader, 2) for pair in _items(node, "a dict")]
    try:
        made = dict(pairs)
    except TypeError:
        raise ExportError("a key of a dict is no key") from None
    if len(made) != len(pairs):
        raise ExportError("a dict has a key twice")
    return made


def _read_type(node: Node, known: Mapping[str, Any]) -> Any:
    if type(node) is not str or node not in known:
        raise ExportError(f"there is no type {node!r:.80}")
    return known[node]


def _read_scalar(node: Node, reader: Any) -> Any:
    name, value = _items(node, "a number", 2)
    dtype, number = _read_type(name, _ARRAY_TYPES), reader.value(value)
    if not isinstance(number, (int, float, complex)):
        raise ExportError(f"{number!r:.80} is no number")
    try:
        return np.asarray(number, dtype)[()]
    except (ValueError, TypeError, OverflowError):
        raise ExportError(f"{number!r:.80} is no number of type {name}") from None


def _read_labels(node: Node, reader: Any) -> Labels:
    left, right, out, conj_left, conj_right = _typed_parts(node, reader, str, str, str, bool, bool)
    letters = left + right + out
    if len(letters) > 200 or not all(c.isascii() and c.isalpha() for c in letters):
        raise ExportError("the labels of a contraction are letters")
    for one, others in ((left, right + out), (right, left + out), (out, left + right)):
        if len(set(one)) != len(one) or not set(one) <= set(others):
            raise ExportError(f"{left},{right}->{out} is no contraction")
    return labelled(left, right, out, conj_left, conj_right)


def _read_geometry(node: Node, reader: Any) -> Geometry:
    made = Geometry(*_typed_parts(node, reader, tuple, tuple, tuple, tuple, tuple, int, tuple, int, bool))
    sizes = (made.size, made.kernel, made.stride, made.dilation, made.out)
    if not all(len(s) == len(made.size) == len(made.padding) and all(_is_size(n) for n in s) for s in sizes):
        raise ExportError("the places of a window are no numbers")
    if not all(type(p) is tuple and len(p) == 2 and all(_is_size(n) for n in p) for p in made.padding):
        raise ExportError("the padding of a window is no pair of numbers")
    return made


def _is_size(number: Any) -> bool:
    return type(number) is int and 0 <= number < 1 << 40


def _write_map(value: AxisMap, writer: Writer) -> Node:
    groups = [
        [t.tolist(), s.tolist(), None if w is None else [w.dtype.name, [writer.value(x) for x in w.tolist()]]]
        for t, s, w in value.groups
    ]
    return [value.size, value.out, groups]


def _read_map(node: Node, reader: Any) -> AxisMap:
    size, out, groups = _items(node, "a map", 3)
    if not (_is_size(size) and _is_size(out) and max(size, out) <= 1 << 24):
        raise ExportError("a map of a dimension has no size")
    made = []
    for group in _items(groups, "the groups of a map"):
        targets, sources, weights = _items(group, "a group of a map", 3)
        places = [_positions(targets, out), _positions(sources, size)]
        if len(places[0]) != len(places[1]) or not len(places[0]) or len(np.unique(places[0])) != len(places[0]):
            raise ExportError("a group of a map has other sources than places")
        if weights is not None:
            name, numbers = _items(weights, "weights", 2)
            values = _parts(numbers, reader, len(places[0]))
            if name not in ("float32", "float64") or not all(type(v) in (int, float) for v in values):
                raise ExportError("the weights of a map are no numbers")
            weights = np.array(values, _ARRAY_TYPES[name])
        made.append((*places, weights))
    return AxisMap(size, out, made)


def _positions(node: Node, size: int) -> Any:
    numbers = _items(node, "positions")
    if not all(type(n) is int and 0 <= n < size for n in numbers):
        raise ExportError("a position lies outside of its dimension")
    return np.array(numbers, int)


def _read_primitive(node: Node, reader: Any) -> Any:
    found = declared(_string(node))
    if found is None:
        raise ExportError(f"this version of Lucid has no primitive {node[:80]!r}")
    return found


def _write_primitive(value: Primitive, writer: Writer) -> str:
    name = _primitive_name(value)
    if type(name) is not str:
        raise ExportError(f"`{value.name}` cannot be the parameter of an instruction")
    return name


FORMS = [
    Form("", int, lambda v, w: v if -_EXACT <= v < _EXACT else {"int": hex(v)}, lambda n, r: n),
    Form("", float, lambda v, w: v if math.isfinite(v) else {"float": repr(v)}, lambda n, r: n),
    Form("", tuple, lambda v, w: [w.value(x) for x in v], lambda n, r: n),
    Form("int", type(None), lambda v, w: v, lambda n, r: _big(n)),
    Form("float", type(None), lambda v, w: v, lambda n, r: _float(n)),
    Form("complex", complex, lambda v, w: [w.value(v.real), w.value(v.imag)],
         lambda n, r: complex(*_typed_parts(n, r, (int, float), (int, float)))),
    Form("list", list, lambda v, w: [w.value(x) for x in v], lambda n, r: _parts(n, r)),
    Form("dict", dict, lambda v, w: [[w.value(k), w.value(x)] for k, x in v.items()], _read_dict),
    Form("slice", slice, lambda v, w: [w.value(x) for x in (v.start, v.stop, v.step)],
         lambda n, r: slice(*_typed_parts(n, r, *((int, type(None)),) * 3))),
    Form("ellipsis", type(Ellipsis), lambda v, w: True, lambda n, r: Ellipsis),
    Form("dtype", np.dtype, lambda v, w: v.name, lambda n, r: _read_type(n, _ARRAY_TYPES)),
    Form("type", dtypes.dtype, lambda v, w: v.name, lambda n, r: _read_type(n, _TYPES)),
    Form("scalar", np.generic, lambda v, w: [v.dtype.name, w.value(v.item())], _read_scalar),
    Form("contraction", Labels, lambda v, w: [v.left, v.right, v.out, v.conj_left, v.conj_right], _read_labels),
    Form("windows", Geometry, lambda v, w: [w.value(x) for x in v], _read_geometry),
    Form("map", AxisMap, _write_map, _read_map),
    Form("primitive", Primitive, _write_primitive, _read_primitive),
]  # fmt: skip
_BASES = (np.dtype, np.generic, Primitive)  # kinds whose subclasses are written alike
_BY_KIND = {form.kind: form for form in FORMS}
_BY_TAG = {form.tag: form for form in FORMS if form.tag}
INSTRUCTIONS: dict[str, Any] = {}  # instructions that are no primitives, by their names
FLOW: dict[str, Any] = {}  # those that run two programs: what makes them


def register(forms: Sequence[Form], instructions: Mapping[str, Any], flow: Mapping[str, Any]) -> None:
    """Let programs hold further kinds of values and instructions."""
    _BY_KIND.update((form.kind, form) for form in forms)
    _BY_TAG.update((form.tag, form) for form in forms)
    INSTRUCTIONS.update(instructions)
    FLOW.update(flow)


__all__ = ["ExportError", "Form", "Reader", "Writer", "register"]
