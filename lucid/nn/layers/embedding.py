"""Embeddings as layers."""

from typing import Any, Self

import lucid
from lucid import Tensor
from lucid.nn import functional as functions
from lucid.nn import init
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A layer with a table of vectors."""

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = self._get_name()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"{name}: padding_idx {padding_idx} is out of range for {num_embeddings} embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if weight is None:
            self.weight = Parameter(lucid.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        elif weight.shape != (num_embeddings, embedding_dim):
            raise ValueError(f"{name}: weights of shape {weight.shape}, expected {(num_embeddings, embedding_dim)}")
        else:
            self.weight = Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw the table from the normal distribution; the row for padding becomes 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with lucid.no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> Self:
        """A layer with these vectors, which are trained only if `freeze` is False; `settings` as for the class.

        >>> import lucid
        >>> from lucid.nn.layers.embedding import Embedding
        >>> Embedding.from_pretrained(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))(lucid.tensor([1]))
        Tensor([[3., 4.]])
        """
        if embeddings.ndim != 2:
            raise ValueError(f"{cls.__name__}: the vectors must have shape (rows, size), not {embeddings.shape}")
        rows, size = embeddings.shape
        make: Any = cls  # subclasses have fewer arguments than this class, by name
        layer: Self = make(rows, size, _weight=embeddings.detach(), **settings)
        layer.weight.requires_grad_(not freeze)
        return layer

    def _settings(self) -> dict[str, Any]:
        """What differs from the usual."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}

    def extra_repr(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._settings().items()]
        return ", ".join([str(self.num_embeddings), str(self.embedding_dim), *shown])


class Embedding(_Table):
    """The rows of a table, which is trained, at indices.

    The row `padding_idx` starts as 0 and gets no gradient. With `max_norm`, rows that are used and longer are shortened
    to it in place. `scale_grad_by_freq` divides gradients by how often the row occurs. With `sparse`, the gradient of the
    table has only the rows that were read: `optim.SparseAdam`, `Adagrad` and `SGD` take the time of these.

    >>> import lucid
    >>> from lucid.nn.layers.embedding import Embedding
    >>> layer = Embedding(10, 3, padding_idx=0)
    >>> layer(lucid.tensor([[1, 2, 0]])).shape
    (1, 3, 3)
    >>> layer.weight[0].detach()
    Tensor([0., 0., 0.])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return functions.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the embeddings in each bag of indices.

    >>> import lucid
    >>> from lucid.nn.layers.embedding import EmbeddingBag
    >>> layer = EmbeddingBag(10, 3, mode="sum")
    >>> layer(lucid.tensor([1, 2, 4, 5]), lucid.tensor([0, 3])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device, dtype,
        )  # fmt: skip
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode must be one of 'sum', 'mean' and 'max', not {mode!r}")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return functions.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "mode": self.mode}
