"""The options that all examples share."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import lucid


def parsed(description: str, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of one run; the seed is set, and so is every random number drawn afterwards."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small size that takes a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    parser.add_argument(
        "--output", type=Path, default=Path("pictures"), help="folder of the picture (default: pictures)"
    )
    options = parser.parse_args(argv)
    lucid.manual_seed(options.seed)
    return options
