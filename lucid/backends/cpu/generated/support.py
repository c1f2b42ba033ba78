"""Whether code is generated here."""

import importlib.util
import platform

from lucid.backends.cpu.launch import elementwise as launch
from lucid.native import processor_levels


def _has_code() -> bool:
    """Whether code can be generated here: x86-64 must multiply and add in one step, and know half precision."""
    if not launch.is_there or importlib.util.find_spec("llvmlite") is None:
        return False
    machine = platform.machine().lower()
    return machine in ("aarch64", "arm64") or (machine in ("x86_64", "amd64") and "x86-64-v3" in processor_levels())


in_use = _has_code()
