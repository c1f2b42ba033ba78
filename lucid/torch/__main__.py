"""`python -m lucid.torch script.py [args]` runs a program written for PyTorch on Lucid; `-m package` runs a package."""

import os
import runpy
import sys

from lucid.torch.installing import install


def main() -> None:
    """Run what the command line names, as Python would."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0] == "-m" and len(arguments) == 1):
        sys.exit("usage: python -m lucid.torch script.py [arguments], or python -m lucid.torch -m package [arguments]")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
