"""Pruning: parameters multiplied by masks of zeros and ones.

The parameter `name` becomes `name_orig`, the mask is the buffer `name_mask`, and `name` is their product, computed before
each forward. What is pruned once more is pruned among what is left.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import lucid
from lucid import Tensor
from lucid.nn.module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip

UNSTRUCTURED, STRUCTURED, GLOBAL = "unstructured", "structured", "global"


class BasePruningMethod(ABC):
    """A way to choose what is pruned: `compute_mask(t, default_mask)` gives the mask. It is also the forward pre-hook."""

    PRUNING_TYPE: ClassVar[str] = UNSTRUCTURED
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor of which `default_mask` says what is left: 1 is kept, 0 is pruned."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        original = getattr(module, f"{name}_orig")
        product: Tensor = getattr(module, f"{name}_mask").to(original.dtype) * original
        return product

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> "BasePruningMethod":
        """Prune a parameter of a module; what was pruned before stays so."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        original = getattr(module, name if before is None else f"{name}_orig", None)
        if original is None:
            raise ValueError(f"{type(module).__name__} has no parameter {name!r} to prune")
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise ValueError(f"importance_scores has shape {scores.shape}, but {name!r} has {original.shape}")
        with lucid.no_grad():
            if before is None:
                mask = method.compute_mask(scores, lucid.ones_like(original))
            else:
                method = PruningContainer(*_parts(before), method)
                method._tensor_name = name
                mask = method.compute_mask(scores, getattr(module, f"{name}_mask"))
        if before is None:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", original)
        else:
            _unhook(module, before)
        module.register_buffer(f"{name}_mask", mask)
        method(module, ())
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor, which belongs to no module."""
        scores = t if importance_scores is None else importance_scores
        mask = lucid.ones_like(t) if default_mask is None else default_mask
        product: Tensor = t * self.compute_mask(scores, mask)
        return product

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter again, in the object that it was before."""
        name = self._tensor_name
        value = self.apply_mask(module)
        original = getattr(module, f"{name}_orig")
        original.data = value.detach()
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        delattr(module, name)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods one after the other: each chooses among what those before it have left."""

    PRUNING_TYPE = "container"

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._methods = methods

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, index: Any) -> Any:
        return self._methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, which sees what is left; `default_mask` is that of those before it."""
        method = self._methods[-1]
        if method.PRUNING_TYPE == STRUCTURED:
            dim = getattr(method, "dim", 0) % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            left = (default_mask.sum(others) != 0).nonzero()[:, 0]
            mask = default_mask.clone()
            part = mask.index_select(dim, left)
            return mask.index_copy(dim, left, part * method.compute_mask(t.index_select(dim, left), part))
        if method.PRUNING_TYPE == GLOBAL:
            return default_mask * method.compute_mask(t, default_mask)
        left = default_mask != 0
        mask = default_mask.clone()
        mask[left] = method.compute_mask(t[left], default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, so that the names are those of a pruned parameter."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it was."""
        return default_mask


class _Amount(BasePruningMethod):
    """Methods that prune a number, or a share, of all entries."""

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the entries that are chosen."""
        mask = default_mask.clone().reshape(-1)
        count = _count(self.amount, t.numel())
        if count:
            mask[self.chosen(t.detach().reshape(-1), count)] = 0
        return mask.reshape(default_mask.shape)

    def chosen(self, t: Tensor, count: int) -> Tensor:
        """The positions of the entries to prune."""
        raise AssertionError("each method has its own")


class RandomUnstructured(_Amount):
    """Prunes entries at random."""

    def chosen(self, t: Tensor, count: int) -> Tensor:
        """Positions that are drawn."""
        return lucid.randperm(t.numel())[:count]


class L1Unstructured(_Amount):
    """Prunes the entries that are nearest to 0."""

    def chosen(self, t: Tensor, count: int) -> Tensor:
        """The positions of the least absolute values."""
        return lucid.topk(t.abs(), count, largest=False).indices


class _Structured(BasePruningMethod):
    """Methods that prune whole slices along a dimension."""

    PRUNING_TYPE = STRUCTURED

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the slices that are chosen."""
        if t.ndim < 2:
            raise ValueError(f"slices are pruned of tensors of two dimensions and more, not of shape {t.shape}")
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        return default_mask.index_fill(self.dim, self.chosen(t.detach(), count, size), 0)

    def chosen(self, t: Tensor, count: int, size: int) -> Tensor:
        """The numbers of the slices to prune."""
        raise AssertionError("each method has its own")


class RandomStructured(_Structured):
    """Prunes slices at random."""

    def chosen(self, t: Tensor, count: int, size: int) -> Tensor:
        """Slices that are drawn."""
        return lucid.randperm(size)[:count]


class LnStructured(_Structured):
    """Prunes the slices of the least norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def chosen(self, t: Tensor, count: int, size: int) -> Tensor:
        """The slices of the least norms."""
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return lucid.topk(lucid.norm(t, self.n, others), count, largest=False).indices


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says."""

    PRUNING_TYPE = GLOBAL

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What both masks keep."""
        if self.mask.shape != default_mask.shape:
            raise ValueError(f"the mask has shape {self.mask.shape}, what it prunes {default_mask.shape}")
        product: Tensor = default_mask * self.mask.to(default_mask.dtype)
        return product


def identity(module: Module, name: str = "weight") -> Module:
    """Give a parameter the names of a pruned one, and prune nothing.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> list(prune.identity(lucid.nn.Linear(2, 1), "weight").state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str = "weight", amount: float = 0.5) -> Module:
    """Prune entries at random: a share of them, or as an integer their number.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> int(prune.random_unstructured(lucid.nn.Linear(4, 5), "weight", 0.25).weight_mask.sum())
    15
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str = "weight", amount: float = 0.5, importance_scores: Tensor | None = None
) -> Module:
    """Prune the entries that are nearest to 0, or have the least scores.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> layer = lucid.nn.Linear(4, 1, bias=False)
    >>> _ = layer.load_state_dict({"weight": lucid.tensor([[1.0, -3.0, 2.0, -0.5]])})
    >>> prune.l1_unstructured(layer, "weight", amount=2).weight.detach()
    Tensor([[ 0., -3.,  2., -0.]])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str = "weight", amount: float = 0.5, dim: int = -1) -> Module:
    """Prune slices along a dimension at random.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> prune.random_structured(lucid.nn.Linear(4, 3), "weight", 1, dim=0).weight_mask.sum(1).sort().values
    Tensor([0., 4., 4.])
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str = "weight",
    amount: float = 0.5,
    n: Any = 2,
    dim: int = -1,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices along a dimension that have the least n-norm.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> layer = lucid.nn.Linear(2, 2, bias=False)
    >>> _ = layer.load_state_dict({"weight": lucid.tensor([[1.0, -3.0], [1.0, -0.5]])})
    >>> prune.ln_structured(layer, "weight", 1, n=2, dim=0).weight_mask
    Tensor([[1., 1.],
            [0., 0.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune what a mask says.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> prune.custom_from_mask(lucid.nn.Linear(2, 1), "bias", lucid.tensor([0])).bias.detach() == 0
    Tensor([ True])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> a, b = lucid.nn.Linear(4, 4), lucid.nn.Linear(4, 2)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.5)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    12
    """
    chosen = list(parameters)
    scores = importance_scores or {}
    with lucid.no_grad():
        weights = [scores.get(place, getattr(*place)) for place in chosen]
        masks = [getattr(module, f"{name}_mask", lucid.ones_like(getattr(module, name))) for module, name in chosen]
        flat = lucid.cat([m.reshape(-1) for m in masks])
        method = PruningContainer(pruning_method(**kwargs))
        found = method.compute_mask(lucid.cat([w.reshape(-1) for w in weights]), flat)
    parts = found.split([w.numel() for w in weights])
    for (module, name), weight, part in zip(chosen, weights, parts, strict=True):
        custom_from_mask(module, name, part.reshape(weight.shape))


def remove(module: Module, name: str = "weight") -> Module:
    """Make what is left of a parameter the parameter, for good.

    >>> import lucid
    >>> from lucid.nn.utils import prune
    >>> layer = prune.l1_unstructured(lucid.nn.Linear(2, 1), "weight", 1)
    >>> prune.is_pruned(layer), list(prune.remove(layer, "weight").state_dict()), prune.is_pruned(layer)
    (True, ['bias', 'weight'], False)
    """
    method = _hook_of(module, name)
    if method is None:
        raise ValueError(f"{name!r} of this {type(module).__name__} is not pruned")
    _unhook(module, method)
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for _, hook in _hooks(m))


def _hooks(module: Module) -> list[tuple[int, Any]]:
    tables = module._own_hooks()
    return [] if tables is None else [(key, hook) for key, (hook, _) in tables.forward_pre.items()]


def _hook_of(module: Module, name: str) -> BasePruningMethod | None:
    found = (h for _, h in _hooks(module) if isinstance(h, BasePruningMethod) and h._tensor_name == name)
    return next(found, None)


def _unhook(module: Module, method: BasePruningMethod) -> None:
    (key,) = [key for key, hook in _hooks(module) if hook is method]
    del module._hook_tables().forward_pre[key]


def _parts(method: BasePruningMethod) -> Sequence[BasePruningMethod]:
    return list(method) if isinstance(method, PruningContainer) else [method]


def _check_amount(amount: Any) -> None:
    is_share = isinstance(amount, float)
    if not (is_share or (isinstance(amount, int) and not isinstance(amount, bool))):
        raise TypeError(f"the amount to prune is a share or a number of entries, not {amount!r}")
    if amount < 0 or (is_share and amount > 1):
        raise ValueError(f"the amount to prune is a share from 0.0 to 1.0 or a number of entries, not {amount!r}")


def _count(amount: float, size: int) -> int:
    """How many of `size` entries are pruned."""
    count = round(amount * size) if isinstance(amount, float) else amount
    if count > size:
        raise ValueError(f"{count} entries are to be pruned where there are {size}")
    return count
