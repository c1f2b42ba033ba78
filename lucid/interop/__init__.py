"""What other libraries must be told of tensors, told when they are imported and not before."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

from lucid.core.tensor import Tensor

# A module of another library -> the module here that tells it of tensors.
INTRODUCTIONS = {
    "einops._backends": "lucid.interop.einops",
    "opt_einsum.backends.dispatch": "lucid.interop.opt_einsum",
    "scipy.sparse._base": "lucid.interop.scipy_sparse",
}


class Introduction:
    """A finder of modules that finds none itself: it waits for one import, and adds ours behind it."""

    def __init__(self, awaited: str, ours: str) -> None:
        self.awaited = awaited
        self.ours = ours

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.awaited:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_introduce(module: Any) -> None:
                run(module)
                import_module(self.ours)

            spec.loader.exec_module = run_and_introduce  # type: ignore[method-assign]  # of this one loader
        return spec


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """What NumPy's ufuncs do with tensors. The tables behind it load on first use: they would double import time."""
    from lucid.interop.numpy_protocol import array_ufunc

    return array_ufunc(self, ufunc, method, *inputs, **kwargs)


def _array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What other NumPy functions do with tensors."""
    from lucid.interop.numpy_protocol import array_function

    return array_function(self, func, types, args, kwargs)


def introduce() -> None:
    """Tell those libraries that are there already, and wait for the others."""
    for name, function in {"__array_ufunc__": _array_ufunc, "__array_function__": _array_function}.items():
        setattr(Tensor, name, function)
    for awaited, ours in INTRODUCTIONS.items():
        if awaited in sys.modules:
            import_module(ours)
        else:
            sys.meta_path.insert(0, Introduction(awaited, ours))


__all__ = ["introduce"]
