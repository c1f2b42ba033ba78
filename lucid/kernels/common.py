"""The kernels that most programs need: those of every method of tensors that takes tensors alone, in float and double.

Their recipes are found by calling the methods, and their backward passes, while generated code is not made but noted.
"""

import inspect
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import lucid
from lucid.api import names
from lucid.backends.cpu.generated import support
from lucid.codegen import bodies, compiled, pack
from lucid.codegen.bodies import NotGeneratedError
from lucid.codegen.recipes import Recipe
from lucid.core.tensor import Tensor
from lucid.native import ANY

TYPES = (lucid.float32, lucid.float64)


@contextmanager
def _collecting() -> Iterator[dict[str, Recipe]]:
    found: dict[str, Recipe] = {}
    compiled.collected[0] = found
    try:
        yield found
    finally:
        compiled.collected[0] = None


def _functions() -> Iterator[Any]:
    """Public functions that are methods of tensors too, and those of networks' layers."""
    for name, row in names.listed().items():
        if name == row.name and "method" in row.columns:
            yield getattr(lucid, name)
    functional = lucid.nn.functional
    yield from [f for name in dir(functional) if not name.startswith("_") and callable(f := getattr(functional, name))]


def _arguments(function: Any, dtype: Any) -> list[Tensor | int] | None:
    """A tensor for each parameter that must be given, and the last dimension where one is asked for; None if unknown."""
    try:
        needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return None
    needed = [p for p in needed if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)]
    if not 1 <= len(needed) <= 3:
        return None
    # More elements than the hand-written loops for small arrays take.
    return [-1 if p.name == "dim" else lucid.full((20, 20), 0.5, dtype=dtype, requires_grad=True) for p in needed]


def recipes() -> dict[str, Recipe]:
    """The recipes of common kernels, by the names under which a pack has them.

    Kernels of this process that were made of them are not made again: it should not compute anything afterwards.
    """
    with warnings.catch_warnings(), _collecting() as found:
        warnings.simplefilter("ignore")
        for dtype in TYPES:
            for function in _functions():
                given = _arguments(function, dtype)
                with suppress(Exception):  # whatever it is that a function wants
                    if given is not None:
                        out = function(*given)
                        out.backward(lucid.ones_like(out))
            _run_others(dtype)
    return found


def _run_others(dtype: Any) -> None:
    """What training calls besides: draws, windows of images, and optimizers."""
    lucid.rand(3, dtype=dtype)
    lucid.randn(3, dtype=dtype)
    functional, images = lucid.nn.functional, lucid.full((1, 1, 20, 20), 0.5, dtype=dtype, requires_grad=True)
    resized = [functional.interpolate(images, scale_factor=2, mode=m) for m in ("nearest", "bilinear")]
    for out in (functional.max_pool2d(images, 2), functional.avg_pool2d(images, 2), *resized):
        out.backward(lucid.ones_like(out))
    for make in (lucid.optim.SGD, partial(lucid.optim.SGD, momentum=0.9), lucid.optim.Adam, lucid.optim.AdamW):
        for count in (1, 2):  # one is updated where it is, and several small ones together
            params = [lucid.full((20,), 0.5, dtype=dtype, requires_grad=True) for _ in range(count)]
            for p in params:
                p.grad = lucid.ones_like(p)
            make(params, lr=0.1).step()


def compiler_of(level: str) -> Any:
    """The compiler for all processors of a level."""
    from lucid.codegen.machine import Compiler

    here = compiled.compiler()
    return Compiler(here.triple, "generic" if level == ANY else level, "")


def write_pack(level: str, known: dict[str, Recipe]) -> None:
    """Write the pack of a level; what the old one has of it is taken over."""
    path = pack.path_of(level)
    old = pack.read_index(path)
    entries = {key: pack.entry_of(path, *old[key]) for key in known if key in old}
    new = [key for key in known if entries.get(key) is None]
    for key, data in zip(new, _all_compiled(level, {key: known[key] for key in new}), strict=True):
        entries[key] = data
    pack.write(path, {key: data for key, data in entries.items() if data is not None})


_work: tuple[Any, dict[str, Recipe]] = (None, {})  # for processes that are forked


def _compiled(key: str) -> bytes | None:
    compiler, known = _work
    try:
        return compiled.entry(known[key], compiler)
    except NotGeneratedError:
        return None


def _all_compiled(level: str, known: dict[str, Recipe]) -> list[bytes | None]:
    """The entries of recipes: by one process for each core, where processes can be forked."""
    global _work
    if not known:
        return []
    _work = compiler_of(level), known
    if "fork" not in multiprocessing.get_all_start_methods():
        return [_compiled(key) for key in known]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        return list(pool.map(_compiled, known, chunksize=4))


def missing(known: dict[str, Recipe]) -> Sequence[tuple[str, Recipe]]:
    """Common kernels that neither the pack nor the cache has, by the names that they get in the cache."""
    from lucid.codegen import cache

    wanted = [(compiled.cached_key(key), key, recipe) for key, recipe in known.items()]
    return [(name, recipe) for name, key, recipe in wanted if pack.read(key) is None and cache.read(name) is None]


def main(level: str) -> int:
    """Write the pack of a level of processors: what building the package does, with a process for each."""
    if not support.in_use:
        print("no code is generated on this machine", file=sys.stderr)
        return 1
    if "x86" in compiled.compiler().triple and level == ANY:
        return 0  # generated code needs more than every processor of this kind has
    bodies.level = level
    write_pack(level, recipes())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
