"""Vectors replaced by entries of a codebook that is learned."""

from typing import Any, NamedTuple

import lucid
from lucid import Tensor
from lucid.nn import init
from lucid.nn.functional.codes import _check_codebook, nearest_codebook, straight_through
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter

__all__ = ["VectorQuantizer", "VectorQuantizerOutput"]


class VectorQuantizerOutput(NamedTuple):
    """What a `VectorQuantizer` gives: entries, their numbers, both losses, and how many entries are in use.

    >>> from lucid.nn import VectorQuantizerOutput
    >>> VectorQuantizerOutput._fields
    ('quantized', 'indices', 'codebook_loss', 'commitment_loss', 'perplexity')
    """

    quantized: Tensor
    indices: Tensor
    codebook_loss: Tensor
    commitment_loss: Tensor
    perplexity: Tensor


class VectorQuantizer(Module):
    """The nearest entries e of a codebook (K, D) for vectors x (…, D), with the gradient of x.

    codebook_loss = mean (e - x)² moves the entries, commitment_loss = mean (x - e)² the vectors; each sees the other as
    constant, and `loss(output)` is their sum with `commitment_cost` as the weight of the second. perplexity is
    exp(-Σ p log p) of how often entries are used.

    >>> import lucid
    >>> quantizer = lucid.nn.VectorQuantizer(8, 4)
    >>> out = quantizer(lucid.rand(2, 3, 4))
    >>> out.quantized.shape, out.indices.shape, quantizer
    ((2, 3, 4), (2, 3), VectorQuantizer(8, 4, commitment_cost=0.25))
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        commitment_cost: float = 0.25,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name, value in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if value <= 0:
                raise ValueError(f"VectorQuantizer: {name} must be positive, not {value}")
        if commitment_cost < 0:
            raise ValueError(f"VectorQuantizer: commitment_cost must not be negative, not {commitment_cost}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.commitment_cost = commitment_cost
        self.weight = Parameter(lucid.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries evenly from ±1/K."""
        init.uniform_(self.weight, -1 / self.num_embeddings, 1 / self.num_embeddings)

    def assign(self, x: Tensor) -> Tensor:
        """The numbers of the nearest entries."""
        return nearest_codebook(x, self.weight)

    def lookup(self, indices: Tensor) -> Tensor:
        """The entries of these numbers."""
        return self.weight[indices]

    def forward(self, x: Tensor) -> VectorQuantizerOutput:
        _check_codebook("VectorQuantizer", x, self.weight)
        indices = self.assign(x)
        entries = self.lookup(indices)
        codebook_loss = ((entries - x.detach()) ** 2).mean()
        commitment_loss = ((x - entries.detach()) ** 2).mean()
        counts = lucid.bincount(indices.reshape(-1), minlength=self.num_embeddings).to(x.dtype)
        usage = counts / max(indices.numel(), 1)
        perplexity = (-(usage * (usage + 1e-10).log()).sum()).exp()
        return VectorQuantizerOutput(straight_through(entries, x), indices, codebook_loss, commitment_loss, perplexity)

    def loss(self, output: VectorQuantizerOutput) -> Tensor:
        """Both losses as one."""
        return output.codebook_loss + self.commitment_cost * output.commitment_loss

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, commitment_cost={self.commitment_cost}"
