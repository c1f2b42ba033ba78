"""`import torch` that finds the front door, for programs and packages that are used as they are."""

import sys
from importlib import import_module

from lucid.torch.accelerators import SWITCHES
from lucid.torch.namespaces import PATHS, ROOT


def install() -> None:
    """In this process, let `import torch` and `import torch.nn` find the front door.

    Packages in pure Python that import PyTorch then work on Lucid. It is refused if the real one is loaded: tensors of
    both would meet.
    """
    ours = import_module(ROOT)
    present = sys.modules.get("torch")
    if present is not None and present is not ours:
        raise RuntimeError(
            "lucid.torch.install(): PyTorch itself is loaded already, and objects of two libraries of one name cannot be "
            "told apart; call install() before anything imports torch"
        )
    sys.modules["torch"] = ours
    for path in (*PATHS, *SWITCHES):
        sys.modules[f"torch.{path}"] = sys.modules[f"{ROOT}.{path}"]
