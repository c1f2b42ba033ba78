"""Modules and distributions whose tensors are those of the front door: for each class of Lucid's, a class of it.

A class here derives from Lucid's and from the classes here of its bases, so `isinstance` and `super()` mean what they
mean in PyTorch.
"""

from abc import ABCMeta
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Self, TypeVar

import lucid.distributions
import lucid.nn
from lucid.nn import functional
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
    body = {"__doc__": original.__doc__, "__module__": home, **_initializer(original)}
    made: Any = of(original.__name__, (original, *bases), body)
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


# --- losses, whose arguments PyTorch has in another order, and older ones among them ---------------------------------

_PLAIN = "size_average reduce reduction"
# A class and its function -> how many tensors the function takes first, and what else both take, in PyTorch's order.
_LOSSES = {
    "BCELoss binary_cross_entropy": (2, f"weight {_PLAIN}"),
    "BCEWithLogitsLoss binary_cross_entropy_with_logits": (2, f"weight {_PLAIN} pos_weight"),
    "CosineEmbeddingLoss cosine_embedding_loss": (3, f"margin {_PLAIN}"),
    "CrossEntropyLoss cross_entropy": (2, "weight size_average ignore_index reduce reduction label_smoothing"),
    "HingeEmbeddingLoss hinge_embedding_loss": (2, f"margin {_PLAIN}"),
    "KLDivLoss kl_div": (2, f"{_PLAIN} log_target"),
    "L1Loss l1_loss": (2, f"{_PLAIN} weight"),
    "MSELoss mse_loss": (2, f"{_PLAIN} weight"),
    "MarginRankingLoss margin_ranking_loss": (3, f"margin {_PLAIN}"),
    "MultiLabelMarginLoss multilabel_margin_loss": (2, _PLAIN),
    "MultiLabelSoftMarginLoss multilabel_soft_margin_loss": (2, f"weight {_PLAIN}"),
    "MultiMarginLoss multi_margin_loss": (2, f"p margin weight {_PLAIN}"),
    "NLLLoss nll_loss": (2, "weight size_average ignore_index reduce reduction"),
    "PoissonNLLLoss poisson_nll_loss": (2, "log_input full size_average eps reduce reduction"),
    "SmoothL1Loss smooth_l1_loss": (2, f"{_PLAIN} beta"),
    "SoftMarginLoss soft_margin_loss": (2, _PLAIN),
    "TripletMarginLoss triplet_margin_loss": (3, f"margin p eps swap {_PLAIN}"),
}


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that two older arguments mean."""
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def older(function: Callable[..., Any], count: int, names: str) -> Callable[..., Any]:
    """A function that also takes what follows its first `count` arguments in this order, and older arguments.

    >>> import lucid.torch as torch
    >>> x, y = torch.ones(2), torch.zeros(2)
    >>> torch.nn.functional.mse_loss(x, y, size_average=False), torch.nn.L1Loss(reduce=False)(x, y)
    (tensor(2.), tensor([1., 1.]))
    """
    order = tuple(names.split())

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if len(args) > count:
            if len(args) > count + len(order):
                raise TypeError(
                    f"{function.__name__}() takes at most {count + len(order)} arguments, {len(args)} were given"
                )
            given = dict(zip(order, args[count:], strict=False))
            if both := given.keys() & named:
                raise TypeError(f"{function.__name__}() got multiple values for {', '.join(sorted(both))}")
            args, named = args[:count], given | named
        if "size_average" in named or "reduce" in named:
            flags = named.pop("size_average", None), named.pop("reduce", None)
            if flags != (None, None):
                named["reduction"] = legacy_get_string(*flags)
        return function(*args, **named)

    return call


def _initializer(original: type) -> dict[str, Any]:
    """The `__init__` of the front door's class for a class of Lucid's, where it has other arguments than that."""
    found = next((row for names, row in _LOSSES.items() if names.split()[0] == original.__name__), None)
    return {} if found is None else {"__init__": older(getattr(original, "__init__"), 1, found[1])}  # noqa: B009  # of a class


# The functions of `torch.nn.functional` with these arguments, by name.
FUNCTIONS = {
    name: older(getattr(functional, name), *row)
    for name, row in ((names.split()[1], row) for names, row in _LOSSES.items())
}
globals().update(FUNCTIONS)
