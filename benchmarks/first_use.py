"""How long the first use of a generated kernel takes: from the pack, from the cache on disk, and compiled by LLVM.

    python -m benchmarks.first_use

Each is timed in a new process, over many functions. What the first one of a process takes besides (imports, and LLVM
where that is needed) is named apart.
"""

import os
import subprocess
import sys
import tempfile
from statistics import median

NAMES = """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan sigmoid erf erfc square
    reciprocal floor relu sum amax prod logsumexp
"""
PROGRAM = """
from time import perf_counter
import lucid
x = lucid.ones(400, dtype=lucid.{dtype})
times = []
for name in "{names}".split():
    start = perf_counter()
    getattr(lucid, name)(x)
    times.append(perf_counter() - start)
print(*times)
print(*sorted({{kernel.origin.split()[-1] for kernel in lucid.kernels.made()}}))
"""


def timed(dtype: str, folder: str) -> None:
    program = PROGRAM.format(dtype=dtype, names=" ".join(NAMES.split()))
    environment = {**os.environ, "LUCID_CACHE": folder}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    numbers, origin = done.stdout.splitlines()
    first, *others = [1e3 * float(number) for number in numbers.split()]
    print(f"from {origin:6} median {median(others):5.1f} ms, worst {max(others):6.1f}; the first one {first:6.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        timed("float32", folder)
        for _ in range(2):  # nothing of half precision is in the pack
            timed("float16", folder)


if __name__ == "__main__":
    main()
