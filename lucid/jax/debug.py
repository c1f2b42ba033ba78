"""`jax.debug`: what a program shows while it runs."""

from typing import Any

from lucid.debug import breakpoint, callback, print
from lucid.jax.absences import missing as _missing

__all__ = ["breakpoint", "callback", "print"]


def __getattr__(name: str) -> Any:
    raise _missing("jax.debug", name)
