"""Collects the public names of the installed PyTorch into tests/torch_names.txt: a line for each path.

A name counts if it is listed in the `__all__` of its module, or, where there is none, if it is documented: functions and
classes with a text of their own that the module does not merely import from the standard library. Internal operators,
which PyTorch binds without documentation, and classes of its C++ compilers do not count.

.venv-bench/bin/python tools/torch_names.py          write the file
.venv-bench/bin/python tools/torch_names.py --check  fail if it is not up to date
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = Path(__file__).parent.parent / "tests" / "torch_names.txt"
MODULES = (
    "nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.prune nn.utils.parametrize nn.utils.parametrizations "
    "nn.utils.stateless nn.parameter nn.attention optim optim.lr_scheduler optim.swa_utils autograd autograd.functional "
    "autograd.forward_ad autograd.graph autograd.function func linalg fft special signal.windows utils.data "
    "utils.checkpoint utils.dlpack distributions distributions.constraints distributions.transforms distributions.kl amp "
    "masked testing random jit cuda cpu"
).split()
CLASSES = "Tensor nn.Module optim.Optimizer Generator distributions.Distribution".split()
# Kinds of bindings that are no part of what programs write.
_BINDINGS = ("torch", "torch._C", "torch._C._VariableFunctions", "")
_FOREIGN = ("typing", "typing_extensions", "collections", "functools", "contextlib", "warnings", "enum", "builtins")
# What modules without `__all__` import for themselves.
_HELPERS = (
    "BroadcastingList1 BroadcastingList2 BroadcastingList3 DType Tensor assert_int_or_pair boolean_dispatch "
    "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic"
).split()
_MINIMAL = 40  # characters of a text that explains something


def counts(name: str, value: Any, is_listed: bool) -> bool:
    """Whether a name of a module is public."""
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    home = getattr(value, "__module__", "") or ""
    if home.partition(".")[0] in _FOREIGN or type(value).__name__ == "pybind11_type":
        return False
    if isinstance(value, type) and home.startswith("torch._C"):
        return False
    if isinstance(value, str | dict | tuple | list | bool):
        return is_listed  # tables and texts for documentation are none
    if value.__class__.__module__ == "torch.jit._script" or name in _HELPERS:
        return False
    explained = len(getattr(value, "__doc__", None) or "") >= _MINIMAL
    return explained or not callable(value) or (is_listed and home not in _BINDINGS)


def of_module(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None)
    names = dir(module) if listed is None else listed
    return sorted({n for n in names if hasattr(module, n) and counts(n, getattr(module, n), listed is not None)})


def text() -> str:
    torch = import_module("torch")
    lines = [
        f"# PyTorch {torch.__version__.partition('+')[0]}, by tools/torch_names.py",
        f"torch: {' '.join(of_module(torch))}",
    ]
    for path in MODULES:
        lines.append(f"torch.{path}: {' '.join(of_module(import_module(f'torch.{path}')))}")
    for path in CLASSES:
        value = torch
        for part in path.split("."):
            value = getattr(value, part)
        names = [n for n in dir(value) if not n.startswith("_") and getattr(value, n, None) is not None]
        lines.append(f"torch.{path}: {' '.join(names)}")
    return "\n".join(lines) + "\n"


def main() -> int:
    found = text()
    if "--check" in sys.argv:
        return 0 if TARGET.read_text() == found else 1
    TARGET.write_text(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
