"""Modules whose parameters and buffers are tensors of the front door: for each class of `lucid.nn`, a class of it.

A class here derives from Lucid's and from the classes here of its bases, so `isinstance` and `super()` mean what they
mean in PyTorch.
"""

from abc import ABCMeta
from functools import cache
from typing import Any, Self, TypeVar

import lucid.nn
from lucid.torch.tensors import adopted


class Adopting(ABCMeta):
    """The type of these classes: whatever an instance has registered when it is complete belongs to the front door.

    Layers that Lucid's own code makes inside others, as a transformer does, count as instances too. Classes of modules may be
    abstract as well.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        module = super().__call__(*args, **kwargs)
        _adopt_contents(module)
        return module

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, _ORIGINALS.get(cls, ()))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or issubclass(subclass, _ORIGINALS.get(cls, ()))


_ORIGINALS: dict[type, type] = {}


def _adopt_contents(module: Any) -> None:
    """Those of the module itself, and of layers below it that are Lucid's."""
    if not isinstance(module, lucid.nn.Module) or "_kinds" not in vars(module):
        return  # its class left out super().__init__(), or made something else
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        adopted(tensor)
    for child in module.children():
        if not isinstance(type(child), Adopting):
            _adopt_contents(child)


def is_module(value: Any) -> bool:
    """Whether something is a class of Lucid's modules."""
    return isinstance(value, type) and not isinstance(value, Adopting) and issubclass(value, lucid.nn.Module)


class Module(lucid.nn.Module, metaclass=Adopting):
    """The base of all modules; see `lucid.nn.Module`.

    >>> import lucid.torch as torch
    >>> torch.nn.Linear(2, 1).to("cpu", memory_format=torch.channels_last).weight.shape
    torch.Size([1, 2])
    """

    def to(self, *args: Any, memory_format: Any = None, **kwargs: Any) -> Self:
        """Convert or move parameters and buffers; `memory_format` is a hint, and nothing follows from it."""
        return super().to(*args, **kwargs)

    def cuda(self, device: Any = None) -> Self:
        """Refused: there is no GPU."""
        return super().to("cuda")

    xpu = ipu = mtia = cuda
    call_super_init = dump_patches = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])


Module.__module__ = "lucid.torch.nn"
_ORIGINALS[Module] = lucid.nn.Module


@cache
def derived(original: Any) -> Any:
    """The class of the front door for a class of modules of Lucid."""
    if original is lucid.nn.Module:
        return Module
    bases = [derived(base) for base in original.__bases__ if is_module(base)]
    made = Adopting(
        original.__name__, (original, *bases), {"__doc__": original.__doc__, "__module__": "lucid.torch.nn"}
    )
    made.__qualname__ = original.__qualname__
    if getattr(original, "cls_to_become", None) is not None:
        made.cls_to_become = derived(original.cls_to_become)  # type: ignore[attr-defined]  # of lazy layers
    _ORIGINALS[made] = original
    return made
