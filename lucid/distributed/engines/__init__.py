"""Engines: what moves memory between processes, behind one seam (`engine.py`)."""

from importlib import import_module

from lucid.distributed.engines.engine import DistributedError, Engine, Pending, ReduceOp

ENGINES = {"single": "SingleEngine", "mpi": "MPIEngine"}


def made(name: str) -> Engine:
    """The engine of a name, over all processes."""
    if name not in ENGINES:
        raise ValueError(f"there is no backend {name!r}; use one of {', '.join(map(repr, ENGINES))}")
    engine: Engine = getattr(import_module(f"{__name__}.{name}"), ENGINES[name])()
    return engine


__all__ = ["ENGINES", "DistributedError", "Engine", "Pending", "ReduceOp", "made"]
