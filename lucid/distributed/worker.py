"""Runs a script as one of several processes that the launcher started: `python -m lucid.distributed.worker script.py ...`."""

import os
import runpy
import sys

from lucid.distributed import faults
from lucid.distributed.control import RANK, SIZE, joined, local_rank, own_rank


def main() -> None:
    line = joined()
    os.environ.update({RANK: str(own_rank()), "LOCAL_RANK": str(local_rank())})
    os.environ.setdefault(SIZE, "1")
    if line is not None:
        faults.report_to(line)
    sys.argv = sys.argv[1:]
    try:
        if sys.argv[0] == "-m":
            sys.argv = sys.argv[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            faults.end_all(end)
            raise SystemExit(end.code if isinstance(end.code, int) else 1) from None
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        faults.end_all(error)
        raise SystemExit(1) from None
    if line is not None:
        line.say(done=True)


if __name__ == "__main__":
    main()
