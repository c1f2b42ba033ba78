"""Debug mode: before each collective, members tell each other what they call, so that all see a difference, and none hangs."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.distributed.engines.engine import DistributedError
from lucid.distributed.groups import ProcessGroup
from lucid.distributed.work import Work

_LENGTH = 2048  # bytes of what a member says


def compare(group: ProcessGroup, what: str, given: Sequence[int] | None, taken: Sequence[int] | None) -> None:
    """Raise for all members if one of them calls something else.

    `given` and `taken` are numbers of elements for each member and from each, of what may differ between members;
    otherwise calls must be the same to the letter.
    """
    if group.size() == 1:
        return
    name = what.partition("(")[0]
    said = [name, list(given), list(taken)] if given is not None and taken is not None else [what, None, None]
    source = np.zeros(_LENGTH, np.uint8)
    text = _shortened(json.dumps([said, what]).encode())
    source[: len(text)] = np.frombuffer(text, np.uint8)
    target = np.zeros(_LENGTH * group.size(), np.uint8)
    Work(what, group, group.engine.all_gather(source, target), lambda: None).wait()
    everyone = [_heard(part) for part in target.reshape(group.size(), _LENGTH)]
    if any(e[0][0] != said[0] for e in everyone) or _amounts_differ([e[0] for e in everyone]):
        calls = "".join(f"\n  rank {rank}: {e[1]}" for rank, e in zip(group.ranks, everyone, strict=True))
        raise DistributedError(f"members of {group!r} call different things, or with different shapes:{calls}")


def _shortened(text: bytes) -> bytes:
    if len(text) <= _LENGTH:
        return text
    cut = f"{text[: _LENGTH - 200].decode(errors='replace')}... {hashlib.sha256(text).hexdigest()}"
    return json.dumps([[cut, None, None], cut]).encode()[:_LENGTH]


def _heard(part: Any) -> Any:
    text = part.tobytes().rstrip(b"\0")
    try:
        return json.loads(text)
    except ValueError:
        return [[text.decode(errors="replace"), None, None], text.decode(errors="replace")]


def _amounts_differ(everyone: list[Any]) -> bool:
    """Whether a member gives another one more or less than that takes."""
    if any(given is None for _, given, _ in everyone):
        return False
    return any(everyone[i][1][j] != everyone[j][2][i] for i in range(len(everyone)) for j in range(len(everyone)))
