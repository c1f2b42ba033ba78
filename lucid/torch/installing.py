"""`import torch` that finds the front door, for programs and packages that are used as they are."""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import Any

from lucid.torch.accelerators import SWITCHES
from lucid.torch.namespaces import PATHS, ROOT


class Metadata(Distribution):
    """What `importlib.metadata` tells of torch: its name and version, for packages that ask before they import it."""

    def read_text(self, filename: str) -> str | None:
        """A file of the metadata."""
        version = import_module(ROOT).__version__
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Where a file of the package would be."""
        return Path(__file__).parent / path


class Finder(DistributionFinder):
    """Finds that metadata, and no module."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Nothing: modules are in `sys.modules`."""

    def find_distributions(self, context: Any = DistributionFinder.Context()) -> Iterator[Distribution]:  # noqa: B008  # as its base
        """The metadata, if it is asked for by name."""
        return iter([Metadata()] if context.name == "torch" else [])


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
    if present is None:
        sys.meta_path.insert(0, Finder())
    sys.modules["torch"] = ours
    for path in (*PATHS, *SWITCHES):
        sys.modules[f"torch.{path}"] = sys.modules[f"{ROOT}.{path}"]
