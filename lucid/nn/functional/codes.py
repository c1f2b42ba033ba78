"""Numbers as codes: on a logarithmic scale, between bins, and by the nearest entry of a codebook."""

import lucid
from lucid import Tensor
from lucid.ops.nn import activations as ops

__all__ = ["nearest_codebook", "straight_through", "symexp", "symlog", "two_hot", "vector_quantize"]


def symlog(input: Tensor) -> Tensor:
    """sign(x) · log(1 + |x|): a logarithm for both signs, with slope 1 at 0.

    >>> import lucid
    >>> from lucid.nn.functional import symlog
    >>> symlog(lucid.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.6931,  0.    ,  0.6931])
    """
    return ops.symlog(input)


def symexp(input: Tensor) -> Tensor:
    """sign(x) · (exp(|x|) - 1): the inverse of `symlog`.

    >>> import lucid
    >>> from lucid.nn.functional import symexp, symlog
    >>> symexp(symlog(lucid.tensor([-2.0, 3.0])))
    Tensor([-2.,  3.])
    """
    return ops.symexp(input)


def two_hot(values: Tensor, bins: Tensor) -> Tensor:
    """Numbers (…) as weights (…, K) on the two of K rising bins between which they lie, so that Σ weight · bin = value.

    Numbers outside of the bins are taken to the nearest. The weights are differentiable by the values and the bins.

    >>> import lucid
    >>> from lucid.nn.functional import two_hot
    >>> two_hot(lucid.tensor([0.5, 9.0]), lucid.tensor([0.0, 2.0, 4.0]))
    Tensor([[0.75, 0.25, 0.  ],
            [0.  , 0.  , 1.  ]])
    """
    if bins.ndim != 1 or bins.shape[0] < 2:
        raise ValueError(f"two_hot: two bins or more are needed in one dimension, not shape {bins.shape}")
    count = bins.shape[0]
    x = values.clamp(min=bins[0], max=bins[-1])
    above = lucid.searchsorted(bins.detach(), x.detach().contiguous()).clamp(1, count - 1)
    low, high = bins[above - 1], bins[above]
    share = ((x - low) / (high - low)).unsqueeze(-1)
    places = lucid.arange(count)
    at = above.unsqueeze(-1)
    zero = lucid.zeros_like(share)
    return lucid.where(places == at, share, zero) + lucid.where(places == at - 1, 1 - share, zero)


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The values of `hard` with the gradient of `soft`.

    >>> import lucid
    >>> from lucid.nn.functional import straight_through
    >>> x = lucid.tensor([0.4, 0.6], requires_grad=True)
    >>> y = straight_through(x.round(), x)
    >>> y.sum().backward()
    >>> y.detach(), x.grad
    (Tensor([0., 1.]), Tensor([1., 1.]))
    """
    if hard.shape != soft.shape:
        raise ValueError(
            f"straight_through: values of shape {hard.shape} cannot have the gradient of shape {soft.shape}"
        )
    return hard.detach() + (soft - soft.detach())


def _check_codebook(name: str, x: Tensor, codebook: Tensor) -> None:
    if codebook.ndim != 2:
        raise ValueError(f"{name}: the codebook must be 2-D, (entries, size), not of shape {codebook.shape}")
    if not x.ndim or x.shape[-1] != codebook.shape[1]:
        raise ValueError(
            f"{name}: the trailing axis of {x.shape} must have the size {codebook.shape[1]} of the entries"
        )


def nearest_codebook(x: Tensor, codebook: Tensor) -> Tensor:
    """For vectors (…, D) the numbers (…) of the entries of a codebook (K, D) that are nearest to them.

    >>> import lucid
    >>> from lucid.nn.functional import nearest_codebook
    >>> nearest_codebook(lucid.tensor([[0.9], [0.2]]), lucid.tensor([[0.0], [1.0]]))
    Tensor([1, 0])
    """
    _check_codebook("nearest_codebook", x, codebook)
    vectors, entries = x.detach(), codebook.detach()
    # |x - e|² without |x|², which is the same for all entries.
    scores = (entries * entries).sum(-1) - 2 * (vectors @ entries.T)
    return scores.argmin(-1)


def vector_quantize(x: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (…, D) replaced by their nearest entries of a codebook (K, D), and the numbers of those.

    The gradient goes to `x` as if nothing had been replaced, and none to the codebook.

    >>> import lucid
    >>> from lucid.nn.functional import vector_quantize
    >>> vector_quantize(lucid.tensor([[0.9], [0.2]]), lucid.tensor([[0.0], [1.0]]))
    (Tensor([[1.],
            [0.]]), Tensor([1, 0]))
    """
    indices = nearest_codebook(x, codebook)
    return straight_through(codebook.detach()[indices], x), indices
