"""What the examples take from other packages: pictures from matplotlib, data from scikit-learn."""

from importlib import import_module
from pathlib import Path
from typing import Any

BLUE, ORANGE, GREEN, PURPLE, GREY = "#1f6f9f", "#e0703a", "#3a9a6a", "#8a5fb0", "#8c8c8c"

STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "font.size": 10,
    "figure.dpi": 130,
}


def imported(name: str) -> Any:
    """A module of an optional package."""
    package = name.partition(".")[0]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != package:
            raise
        message = f'this example needs {package}: pip install "lucid[examples]"'
        raise ModuleNotFoundError(message, name=package) from None


def figure(width: float, height: float) -> Any:
    """An empty figure, in inches, that needs no window."""
    imported("matplotlib").rcParams.update(STYLE)
    return imported("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def save(made: Any, folder: Path, name: str) -> Path:
    """Write a figure to a folder, which is created, and say where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    made.savefig(path)
    print(f"picture: {path}")
    return path
