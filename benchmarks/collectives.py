"""All-reduce of large tensors by `lucid.distributed`, against mpi4py alone with buffers, by turns.

python -m lucid.distributed.run -n 2 -m benchmarks.collectives [--megabytes 100] [--rounds 9] [--dtype float32]
"""

import argparse
import time
from statistics import median

import numpy as np
from mpi4py import MPI

import lucid
import lucid.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    dist.init_process_group("mpi")
    comm = MPI.COMM_WORLD
    dtype = getattr(lucid, options.dtype)
    x = lucid.ones(int(options.megabytes * 1e6) // dtype.itemsize, dtype=dtype)
    array = np.ones(x.shape, np.float32 if options.dtype == "bfloat16" else dtype.numpy)
    ways = {
        "mpi4py": lambda: comm.Allreduce(MPI.IN_PLACE, array, MPI.SUM),
        "lucid": lambda: dist.all_reduce(x),
        "lucid, async_op": lambda: dist.all_reduce(x, async_op=True).wait(),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, call in ways.items():
            array[:] = 1
            x.fill_(1)
            comm.Barrier()
            start = time.perf_counter()
            call()
            comm.Barrier()
            times[name].append(time.perf_counter() - start)
    if comm.rank == 0:
        reference = times["mpi4py"]
        for name, found in times.items():
            ratio = median(r / f for r, f in zip(reference, found, strict=True))
            print(
                f"{name:16} {options.megabytes:g} MB {options.dtype}: least {min(found) * 1e3:8.2f} ms, median "
                f"{median(found) * 1e3:8.2f} ms; {min(reference) / min(found):.2f} of mpi4py's speed at best, {ratio:.2f} in the median"
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
