"""Modules and distributions whose tensors are those of the front door: for each class of Lucid's, a class of it.

A class here derives from Lucid's and from the classes here of its bases, so `isinstance` and `super()` mean what they
mean in PyTorch.
"""

from abc import ABCMeta
from functools import cache
from typing import Any, Self, TypeVar

import lucid.distributions
import lucid.nn
from lucid.nn.registry import MODULE
from lucid.torch.sizes import Size, sized
from lucid.torch.tensors import adopted


class Adopting(ABCMeta):
    """The type of distributions: whatever an instance has when it is complete belongs to the front door."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if isinstance(made, lucid.distributions.Distribution):
            _adopt_distribution(made)
        return made

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, _ORIGINALS.get(cls, ()))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or issubclass(subclass, _ORIGINALS.get(cls, ()))


_ORIGINALS: dict[type, type] = {}
# Which PyTorch prints without their settings.
_TERSE = "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer".split()


def _adopt_module(module: Any) -> None:
    """A module that Lucid's own code made, as a transformer makes its layers, with all that it has."""
    if not is_derived(type(module)):
        return
    kind: Any = type(module)
    module.__class__ = derived(kind)
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        adopted(tensor)
    for child in module.children():
        _adopt_module(child)


def _adopt_distribution(made: Any) -> None:
    """Its parameters, and those of the distributions that it is made of."""
    adopted(vars(made))
    for part in vars(made).values():
        if isinstance(part, lucid.distributions.Distribution):
            _adopt_distribution(part)


def is_derived(value: Any) -> bool:
    """Whether something is a class of Lucid's that has one here."""
    return isinstance(value, type) and issubclass(value, tuple(_ROOTS)) and not {*value.__mro__} & {*_ROOTS.values()}


class Module(lucid.nn.Module):
    """The base of all modules; see `lucid.nn.Module`.

    >>> import lucid.torch as torch
    >>> torch.nn.Linear(2, 1).to("cpu", memory_format=torch.channels_last).weight.shape
    torch.Size([1, 2])
    """

    def _put(self, name: str, value: Any, kind: str) -> None:
        """Whatever is registered belongs to the front door from then on."""
        if kind == MODULE:
            _adopt_module(value)
        else:
            adopted(value)
        super()._put(name, value, kind)

    def to(self, *args: Any, memory_format: Any = None, **kwargs: Any) -> Self:
        """Convert or move parameters and buffers; `memory_format` is a hint, and nothing follows from it."""
        return super().to(*args, **kwargs)

    def cuda(self, device: Any = None) -> Self:
        """Refused: there is no GPU."""
        return super().to("cuda")

    xpu = ipu = mtia = cuda
    _forward_hooks = property(lambda self: self._hook_tables().forward, doc="Hooks on the results of calls, by number.")
    _forward_pre_hooks = property(lambda self: self._hook_tables().forward_pre, doc="Hooks before calls, by number.")
    _backward_hooks = property(lambda self: self._hook_tables().backward, doc="Hooks on gradients, by number.")
    call_super_init = dump_patches = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    def _register_state_dict_hook(self, hook: Any) -> Any:
        """The older name of `register_state_dict_post_hook`."""
        return self.register_state_dict_post_hook(hook)

    def _register_load_state_dict_pre_hook(self, hook: Any, with_module: bool = False) -> Any:
        """The older form of `register_load_state_dict_pre_hook`, whose hooks get the module only if they ask for it."""
        return self.register_load_state_dict_pre_hook(hook if with_module else WithoutModule(hook))


class WithoutModule:
    """A hook that does not get the module; a class, so that modules that have one are pickled."""

    def __init__(self, hook: Any) -> None:
        self.hook = hook

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.hook(*args)


class Distribution(lucid.distributions.Distribution, metaclass=Adopting):
    """The base of all distributions; see `lucid.distributions.Distribution`.

    >>> import lucid.torch as torch
    >>> torch.distributions.Normal(0.0, 1.0).batch_shape, torch.distributions.Laplace(0.0, 1.0).mean
    (torch.Size([]), tensor(0.))
    """

    @property
    def batch_shape(self) -> Size:
        """How many distributions this is, each with parameters of its own."""
        return sized(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """The shape of one draw from one of them."""
        return sized(self._event_shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return sized(super()._extended_shape(sample_shape))

    def _made(self, tensor: Any) -> Any:
        return adopted(tensor)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What `expand` of a subclass fills: a new object of its class, or the one that a class below has begun.

        >>> import lucid.torch as torch
        >>> class Wide(torch.distributions.Normal):
        ...     def expand(self, batch_shape, _instance=None):
        ...         return super().expand(batch_shape, self._get_checked_instance(Wide, _instance))
        >>> wide = Wide(0.0, 1.0).expand((2,))
        >>> type(wide).__name__, wide.sample().shape
        ('Wide', torch.Size([2]))
        """
        kinds: Any = (type(self), cls)
        if _instance is None and kinds[0].__init__ != kinds[1].__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                "custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance


_ROOTS: dict[type, type] = {lucid.nn.Module: Module, lucid.distributions.Distribution: Distribution}
Module.__module__, Distribution.__module__ = "lucid.torch.nn", "lucid.torch.distributions"
_ORIGINALS.update({made: original for original, made in _ROOTS.items()})


@cache
def derived(original: Any) -> Any:
    """The class of the front door for a class of modules or distributions of Lucid."""
    if original in _ROOTS:
        return _ROOTS[original]
    bases = [derived(base) for base in original.__bases__ if is_derived(base)]
    home = next(made.__module__ for root, made in _ROOTS.items() if issubclass(original, root))
    of = Adopting if issubclass(original, lucid.distributions.Distribution) else type(original)
    made: Any = of(original.__name__, (original, *bases), {"__doc__": original.__doc__, "__module__": home})
    made.__qualname__ = original.__qualname__
    if getattr(original, "cls_to_become", None) is not None:
        made.cls_to_become = derived(
            original.cls_to_become
        )  # of lazy layers, for which PyTorch has conventions of its own
        made._unknown = 0
        if original._missing == "num_features":
            made._defaults = {"affine": True, "track_running_stats": True}
    if original.__name__ in _TERSE:
        made.extra_repr = Module.extra_repr
    _ORIGINALS[made] = original
    return made
