"""How long `import lucid` takes beside `import numpy`, without which it cannot be.

    python -m benchmarks.imports [rounds]

Each is timed in new processes, in turns, and the shortest time of each counts. NumPy is there before Lucid is imported.
Bytecode is kept, as it is for users, also where PYTHONDONTWRITEBYTECODE forbids that: to compile the sources of Lucid
at every start takes longer than all the rest.
"""

import os
import subprocess
import sys

from lucid import native

PROGRAM = """
from time import perf_counter
start = perf_counter()
import numpy
between = perf_counter()
import lucid
print(between - start, perf_counter() - between, sum(name.partition(".")[0] == "lucid" for name in sys.modules))
"""


def main(rounds: int = 40) -> None:
    runs = []
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(rounds + 1):  # the first may have to write bytecode
        done = subprocess.run(
            [sys.executable, "-c", "import sys" + PROGRAM], capture_output=True, text=True, check=True, env=settings
        )
        runs.append([float(number) for number in done.stdout.split()])
    numpy, lucid, modules = (min(column) for column in zip(*runs[1:], strict=True))
    print(f"numpy {numpy * 1e3:.1f} ms, lucid {lucid * 1e3:.1f} ms more, ratio {lucid / numpy:.2f}")
    print(f"{modules:.0f} modules of lucid, {'compiled' if native.in_use else 'as they are'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
