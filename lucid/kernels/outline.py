"""The loops of a function of LLVM, read off its text: the way in which `codegen.vectors.Function.loop` writes them."""

import re
from collections import Counter

_HEAD = re.compile(r"define \w+ @(\w+)\((.*)\)")
_LABEL = re.compile(r"(\w+):$")
_PHI = re.compile(r"%(\w+) = phi i64 \[ (\S+), %\w+ \], \[ (\S+), %\w+ \]")
_STOP = re.compile(r"%(\w+) = icmp slt i64 %(\w+), (\S+)")
_STEP = re.compile(r"%(\w+) = add i64 %(\w+), (\d+)$")
_BRANCH = re.compile(r"br i1 %(\w+), label %(\w+), label %(\w+)")
_NO_WORK = ("phi", "br", "getelementptr", "ret", "alloca", "bitcast", "insertelement", "shufflevector")


def outline(text: str) -> str:
    """Functions and their loops, and how often a pass of a loop loads, stores and computes."""
    return "\n".join(line for part in re.split(r"(?m)^(?=define )", text)[1:] for line in _function(part.splitlines()))


class _Loop:
    def __init__(self, depth: int, index: str, start: str) -> None:
        self.depth, self.index, self.start = depth, index, start
        self.stop, self.step, self.done = "?", "", ""
        self.work: Counter[str] = Counter()

    def __str__(self) -> str:
        limits = f"for {self.index} from {self.start} below {self.stop}{self.step}"
        done = ", ".join(f"{count} {what}" for what, count in self.work.items())
        return f"{'    ' * self.depth}{limits}" + (f": {done}" if done else "")


def _function(lines: list[str]) -> list[str]:
    head = _HEAD.match(lines[0])
    if head is None:
        return []
    found: list[_Loop] = []
    inside: list[_Loop] = []
    for line in (raw.strip() for raw in lines[1:]):
        label = _LABEL.match(line)
        if label:
            while inside and inside[-1].done == label[1]:
                inside.pop()
            is_head = label[1].startswith("loop")
            continue
        phi = _PHI.match(line)
        if phi and is_head:
            inside.append(_Loop(len(inside) + 1, phi[1], phi[2].lstrip("%")))
            found.append(inside[-1])
            is_head = False
            continue
        if not inside:
            continue
        loop = inside[-1]
        stop, branch, step = _STOP.match(line), _BRANCH.match(line), _STEP.match(line)
        if stop and stop[2] == loop.index:
            loop.stop = stop[3].lstrip("%")
        elif branch and not loop.done:
            loop.done = branch[3]
        elif step and step[2] == loop.index:
            loop.step = f" by {step[3]}"
        else:
            _count(loop, line)
    parameters = ", ".join(p.split("%")[-1] for p in head[2].split(", "))
    return [f"{head[1]}({parameters})", *map(str, found)]


def _count(loop: _Loop, line: str) -> None:
    """Add an instruction to the work of its loop."""
    what = line.partition(" = ")[2] or line
    word = what.split()[0]
    vector = re.search(r"<\d+ x \w+>", what)
    of = f" of {vector[0][1:-1]}" if vector else ""
    if word in ("load", "store"):
        loop.work[f"{word}{of}"] += 1
    elif vector and word not in _NO_WORK:
        loop.work[f"computed{of}"] += 1
