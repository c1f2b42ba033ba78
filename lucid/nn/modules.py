"""The layers by kind, by the paths of PyTorch and of the original Lucid, such as `nn.modules.conv`.

>>> from lucid import nn
>>> from lucid.nn.modules.conv import Conv2d
>>> Conv2d is nn.Conv2d is nn.modules.Conv2d
True
"""

import sys as _sys
from typing import Any as _Any

import lucid as _lucid
from lucid.nn import containers as _containers
from lucid.nn import layers as _layers
from lucid.nn import module as _module

__path__: list[str] = []
_KINDS = {
    "activation": "activations", "attention": "attention", "conv": "convolution", "dropout": "dropout", "linear": "linear",
    "loss": "losses", "normalization": "normalization", "padding": "padding", "pooling": "pooling", "rnn": "recurrent",
    "sparse": "embedding", "transformer": "transformer",
}  # fmt: skip
_FILES = {name: getattr(_layers, kind) for name, kind in _KINDS.items()} | {"container": _containers, "module": _module}
_sys.modules.update({f"{__name__}.{name}": file for name, file in _FILES.items()})


def __getattr__(name: str) -> _Any:
    if name in _FILES:
        return _FILES[name]
    if name not in _lucid.nn.__all__:
        raise AttributeError(f"module 'lucid.nn.modules' has no attribute {name!r}")
    return getattr(_lucid.nn, name)


def __dir__() -> list[str]:
    return sorted({*_lucid.nn.__all__, *_FILES})
