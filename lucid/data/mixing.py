"""Batches of images mixed with each other, with labels in the same proportions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.data.collation import default_collate

__all__ = ["CutMixCollator", "MixupCollator", "RandomMixupCutMixCollator"]


class _Mixing:
    """Collates samples (image, label), and with probability `p` mixes each with a partner."""

    def __init__(self, alpha: float, num_classes: int, p: float) -> None:
        name = type(self).__name__
        if alpha <= 0:
            raise ValueError(f"{name}: alpha must be positive, not {alpha}")
        if num_classes < 1:
            raise ValueError(f"{name}: num_classes must be at least 1, not {num_classes}")
        if not 0 <= p <= 1:
            raise ValueError(f"{name}: p must be a probability, not {p}")
        self.alpha, self.num_classes, self.p = alpha, num_classes, p

    def __call__(self, batch: Sequence[tuple[Any, Any]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(batch)
        targets = lucid.nn.functional.one_hot(labels.long(), self.num_classes).to(lucid.float32)
        if lucid.rand(()).item() >= self.p:
            return images, targets
        share = float(lucid.distributions.Beta(self.alpha, self.alpha).sample().item())
        order = lucid.randperm(images.shape[0])
        mixed, share = self._mixed(images, images[order], share)
        return mixed, share * targets + (1 - share) * targets[order]

    def _mixed(self, images: Tensor, partners: Tensor, share: float) -> tuple[Tensor, float]:
        raise AssertionError("each has its way")


class MixupCollator(_Mixing):
    """λ · image + (1 - λ) · another, with λ from Beta(α, α), and labels likewise.

    >>> import lucid
    >>> from lucid.data import MixupCollator
    >>> images, targets = MixupCollator(0.2, num_classes=3)([(lucid.rand(1, 4, 4), 0), (lucid.rand(1, 4, 4), 2)])
    >>> images.shape, targets.sum(1)
    ((2, 1, 4, 4), Tensor([1., 1.]))
    """

    def __init__(self, alpha: float = 0.2, *, num_classes: int, p: float = 1.0) -> None:
        super().__init__(alpha, num_classes, p)

    def _mixed(self, images: Tensor, partners: Tensor, share: float) -> tuple[Tensor, float]:
        return share * images + (1 - share) * partners, share


class CutMixCollator(_Mixing):
    """A box of another image in each, of an area of 1 - λ with λ from Beta(α, α), and labels by the area that is left.

    >>> import lucid
    >>> from lucid.data import CutMixCollator
    >>> images, targets = CutMixCollator(1.0, num_classes=3)([(lucid.zeros(1, 4, 4), 0), (lucid.ones(1, 4, 4), 2)])
    >>> lucid.allclose(images[0].mean(), targets[0, 2]) or lucid.allclose(images[0].mean(), 0 * targets[0, 2])
    True
    """

    def __init__(self, alpha: float = 1.0, *, num_classes: int, p: float = 1.0) -> None:
        super().__init__(alpha, num_classes, p)

    def _mixed(self, images: Tensor, partners: Tensor, share: float) -> tuple[Tensor, float]:
        height, width = images.shape[-2:]
        side = math.sqrt(1 - share)
        edges = []
        for size in (height, width):
            middle = int(lucid.randint(0, size, ()).item())
            half = int(size * side) // 2
            edges.append((max(middle - half, 0), min(middle + half, size)))
        (top, bottom), (left, right) = edges
        mixed = images.clone()
        mixed[..., top:bottom, left:right] = partners[..., top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)


class RandomMixupCutMixCollator:
    """One of both for each batch: CutMix with probability `switch_prob`.

    >>> import lucid
    >>> from lucid.data import RandomMixupCutMixCollator
    >>> collate = RandomMixupCutMixCollator(num_classes=3)
    >>> collate([(lucid.rand(1, 4, 4), 0), (lucid.rand(1, 4, 4), 2)])[1].shape
    (2, 3)
    """

    def __init__(
        self,
        *,
        mixup_alpha: float = 0.2,
        cutmix_alpha: float = 1.0,
        num_classes: int,
        p: float = 1.0,
        switch_prob: float = 0.5,
    ) -> None:
        if not 0 <= switch_prob <= 1:
            raise ValueError(f"RandomMixupCutMixCollator: switch_prob must be a probability, not {switch_prob}")
        self.mixup: Callable[..., Any] = MixupCollator(mixup_alpha, num_classes=num_classes, p=p)
        self.cutmix: Callable[..., Any] = CutMixCollator(cutmix_alpha, num_classes=num_classes, p=p)
        self.switch_prob = switch_prob

    def __call__(self, batch: Sequence[tuple[Any, Any]]) -> Any:
        return (self.cutmix if lucid.rand(()).item() < self.switch_prob else self.mixup)(batch)
