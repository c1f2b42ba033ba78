"""Looks after the generated kernels on disk.

    python -m lucid.kernels list     the entries of the cache, with sizes and ages
    python -m lucid.kernels warm     compile the kernels that most programs need, so that none of them waits for it
    python -m lucid.kernels clear    delete all entries

The variable LUCID_CACHE in the environment names another folder, or turns the cache off if it is 0.
"""

import argparse
import importlib.util
import os
import sys
import time

from lucid.codegen import cache, pack
from lucid.native import ANY, level


def size(count: float) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def age(seconds: float) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def show() -> int:
    known = cache.entries()
    now = time.time()
    for entry in known:
        try:
            with open(entry.path, "rb") as file:
                data = cache.opened(file.read())
        except OSError:  # another process removed it
            continue
        title = "damaged" if data is None else data.partition(b"\n")[0].decode(errors="replace")
        print(f"{size(entry.size):>10}  {age(now - entry.written):>7}  {title}")
    print(f"{len(known)} kernels, {size(sum(e.size for e in known))}, in {cache.folder()}")
    path = pack.path_of(level or ANY)
    built = pack.read_index(path)
    print(f"{len(built)} kernels came with the package, in {path}" if built else "no kernels came with the package")
    return 0


def clear() -> int:
    print(f"{cache.clear()} kernels deleted from {cache.folder()}")
    return 0


def warm() -> int:
    from lucid.backends.cpu.generated import support

    if not support.in_use:
        has_llvm = importlib.util.find_spec("llvmlite") is not None
        why = "the package is not compiled, or the processor is too old" if has_llvm else "llvmlite is not installed"
        print(f"no code is generated here: {why}", file=sys.stderr)
        return 1
    from lucid.codegen import compiled
    from lucid.codegen.bodies import NotGeneratedError
    from lucid.kernels import common

    known = common.recipes()
    wanted = common.missing(known)
    start = time.perf_counter()
    count = 0
    for done, (key, recipe) in enumerate(wanted, 1):
        try:
            cache.write(key, compiled.entry(recipe, compiled.compiler()))
            count += 1
        except NotGeneratedError:
            pass
        line = f"{done} of {len(wanted)}: {recipe.kind} {recipe.name}"
        print(f"\r{line:<70.70}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)
    print(f"\r{count} kernels compiled in {time.perf_counter() - start:.1f} s; {len(known)} are common")
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m lucid.kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("list", "warm", "clear"))
    command = parser.parse_args(arguments).command
    if cache.folder() is None:
        wanted = cache.chosen()
        why = f"{wanted} is no folder that only you can write to" if wanted else "LUCID_CACHE=0 turns it off"
        print(f"there is no cache: {why}", file=sys.stderr)
        return 1
    return {"list": show, "warm": warm, "clear": clear}[command]()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # somebody reads no further
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
