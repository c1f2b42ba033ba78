"""What decides about the machine code of a text, without asking LLVM, which takes long to load."""

import importlib.util
import os
import platform
import sys
from contextlib import suppress

# What Linux says about a processor: its model and all features that programs may use.
_DESCRIPTIONS = ("/sys/devices/system/cpu/modalias", "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
# The same in its list of processors, which some containers have instead; the speed of the moment stands there, too.
_LIST = "/proc/cpuinfo"
_LINES = (
    "vendor_id", "cpu family", "model", "stepping", "flags", "features", "cpu implementer", "cpu variant", "cpu part",
)  # fmt: skip


def _text(path: str) -> str:
    with suppress(OSError), open(path) as file:
        return file.read()
    return ""


def _listed() -> str:
    """What the list of processors says about the first one."""
    first = _text(_LIST).partition("\n\n")[0]
    return "\n".join([line for line in first.splitlines() if line.partition(":")[0].strip().lower() in _LINES])


def llvm_folder() -> str:
    """Where llvmlite is installed; empty if it is not."""
    found = importlib.util.find_spec("llvmlite")
    return os.path.dirname(found.origin) if found and found.origin else ""


def llvm_version() -> str:
    """What llvmlite says about its version."""
    return _text(os.path.join(llvm_folder(), "_version.py")) if llvm_folder() else ""


def identity() -> str | None:
    """A text that changes with the processor, the system and LLVM; None if only LLVM can say."""
    here = "".join(map(_text, _DESCRIPTIONS)) or _listed()
    llvm = llvm_version()
    return f"{sys.platform} {platform.machine()} {here} {llvm}" if here and llvm else None
