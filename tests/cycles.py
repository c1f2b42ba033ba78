"""Proves that what runs leaves nothing to the garbage collector."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from lucid.core import detachments

_PASSES = 10


@contextmanager
def no_cycles() -> Iterator[None]:
    """What runs inside must leave no reference cycles; the error names the types of the objects in them."""
    detachments.log.clear()  # what an older cut refers to may be the last of an earlier program
    for _ in range(_PASSES):  # of what others left, finalizers and late hooks keep parts for a further collection
        if gc.collect() + gc.collect() == 0:
            break
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = Counter(type(found).__qualname__ for found in gc.garbage)
        names = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
        total = kinds.total()
        subject = "1 object in reference cycles was" if total == 1 else f"{total} objects in reference cycles were"
        assert total == 0, f"{subject} left behind: {names}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if was_enabled:
            gc.enable()
