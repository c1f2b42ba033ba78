"""What decides about the machine code of a text, without asking LLVM, which takes long to load."""

import importlib.util
import os
import platform
import sys
from contextlib import suppress

# What Linux says about a processor: its model and all features that programs may use.
_DESCRIPTIONS = ("/sys/devices/system/cpu/modalias", "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")


def _text(path: str) -> str:
    with suppress(OSError), open(path) as file:
        return file.read()
    return ""


def llvm_folder() -> str:
    """Where llvmlite is installed; empty if it is not."""
    found = importlib.util.find_spec("llvmlite")
    return os.path.dirname(found.origin) if found and found.origin else ""


def llvm_version() -> str:
    """What llvmlite says about its version."""
    return _text(os.path.join(llvm_folder(), "_version.py")) if llvm_folder() else ""


def identity() -> str | None:
    """A text that changes with the processor, the system and LLVM; None if only LLVM can say."""
    here = "".join(map(_text, _DESCRIPTIONS))
    llvm = llvm_version()
    return f"{sys.platform} {platform.machine()} {here} {llvm}" if here and llvm else None
