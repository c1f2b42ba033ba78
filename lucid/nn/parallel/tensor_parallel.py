"""Tensor parallel layers: each process of a group has a part of each weight, and computes with that part.

A column-parallel layer followed by a row-parallel one needs one sum for the pair. With `sequence_parallel`, what lies between
such pairs is divided along the sequence (dimension 1 of inputs (N, T, C)), and the sum becomes a reduce-scatter and a gather.
"""

from collections.abc import Mapping
from typing import Any

import lucid
from lucid import Tensor, distributed, no_grad
from lucid.distributed import DeviceMesh, ProcessGroup
from lucid.distributed.functional import all_gather, reduce_once, reduce_scatter, replicate
from lucid.distributed.groups import chosen
from lucid.distributed.parts import Place, mark_as_part
from lucid.nn import functional
from lucid.nn.layers.embedding import Embedding
from lucid.nn.layers.linear import Linear
from lucid.nn.module import Module
from lucid.nn.parallel.regions import joined, split
from lucid.nn.parameter import Parameter

__all__ = [
    "ColumnParallelLinear", "RowParallelLinear", "SequenceParallelNorm", "VocabParallelEmbedding", "parallelize_module",
    "vocab_parallel_cross_entropy",
]  # fmt: skip

SEQUENCE = 1  # the dimension of the sequence


def _own_part(whole: Tensor, dim: int, group: ProcessGroup, what: str) -> Parameter:
    """This process's part of a weight that the first process of a group has; all call it."""
    if whole.shape[dim] % group.size():
        raise ValueError(
            f"{what}: {whole.shape[dim]} features do not divide by the {group.size()} processes of the group"
        )
    length = whole.shape[dim] // group.size()
    with no_grad():
        value = whole.detach().contiguous()
        if group.size() > 1:
            distributed.broadcast(value, group=group, group_src=0)
        part = Parameter(value.narrow(dim, group.rank() * length, length).contiguous().clone())
    begin = tuple([group.rank() * length if d == dim else 0 for d in range(whole.ndim)])
    mark_as_part(part, group, Place(begin, tuple(whole.shape)))
    return part


class _ParallelLinear(Module):
    """A linear layer of which each process has a part of the weight, along `_dim`."""

    _dim: int

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool,
        sequence_parallel: bool,
        process_group: ProcessGroup | None,
        like: Linear | None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.sequence_parallel, self.process_group = sequence_parallel, chosen(process_group)
        whole = like if like is not None else Linear(in_features, out_features, bias)
        self.weight = _own_part(whole.weight, self._dim, self.process_group, type(self).__name__)
        self.bias = None if whole.bias is None else self._own_bias(whole.bias)

    def _own_bias(self, whole: Tensor) -> Parameter:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, parts={self.process_group.size()}"
        )


class ColumnParallelLinear(_ParallelLinear):
    """A linear layer of which each process computes a part of the outputs.

    Inputs are alike in all processes of the group, or with `sequence_parallel` parts of the sequence. With `gather_output`
    all get all outputs. All begin with the weight of the first one.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import ColumnParallelLinear
    >>> dist.init_process_group("single")
    >>> ColumnParallelLinear(3, 4)(lucid.ones(2, 3)).shape
    (2, 4)
    >>> dist.destroy_process_group()
    """

    _dim = 0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        gather_output: bool = False,
        sequence_parallel: bool = False,
        process_group: ProcessGroup | None = None,
        like: Linear | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, sequence_parallel, process_group, like)
        self.gather_output = gather_output

    def _own_bias(self, whole: Tensor) -> Parameter:
        return _own_part(whole, 0, self.process_group, "ColumnParallelLinear")

    def forward(self, input: Tensor) -> Tensor:
        """The own part of the outputs."""
        group = self.process_group
        x = all_gather(input, SEQUENCE, group) if self.sequence_parallel else replicate(input, group)
        out = functional.linear(x, self.weight, self.bias)
        return joined(out, -1, group) if self.gather_output else out


class RowParallelLinear(_ParallelLinear):
    """A linear layer of which each process has a part of the inputs; the outputs are summed.

    With `input_is_parallel=False` each takes its part of inputs that are alike. With `sequence_parallel` each gets a part of
    the sequence of outputs.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import RowParallelLinear
    >>> dist.init_process_group("single")
    >>> RowParallelLinear(4, 3)(lucid.ones(2, 4)).shape
    (2, 3)
    >>> dist.destroy_process_group()
    """

    _dim = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        input_is_parallel: bool = True,
        sequence_parallel: bool = False,
        process_group: ProcessGroup | None = None,
        like: Linear | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, sequence_parallel, process_group, like)
        self.input_is_parallel = input_is_parallel

    def _own_bias(self, whole: Tensor) -> Parameter:
        return _alike(whole, self.process_group)

    def forward(self, input: Tensor) -> Tensor:
        """The sum of what all processes compute."""
        group = self.process_group
        x = input if self.input_is_parallel else split(input, -1, group)
        out = functional.linear(x, self.weight)
        if self.bias is None:
            return reduce_scatter(out, dim=SEQUENCE, group=group) if self.sequence_parallel else reduce_once(out, group)
        if self.sequence_parallel:
            return reduce_scatter(out, dim=SEQUENCE, group=group) + replicate(self.bias, group)
        return reduce_once(out, group) + self.bias


def _alike(whole: Tensor, group: ProcessGroup) -> Parameter:
    with no_grad():
        value = whole.detach().clone()
        if group.size() > 1:
            distributed.broadcast(value, group=group, group_src=0)
        return Parameter(value)


class VocabParallelEmbedding(Module):
    """An embedding of which each process has the vectors of a part of the vocabulary.

    Its weight, `like` that of a `ColumnParallelLinear`, also serves as the output layer of a model.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import VocabParallelEmbedding
    >>> dist.init_process_group("single")
    >>> VocabParallelEmbedding(10, 4)(lucid.tensor([[1, 2]])).shape
    (1, 2, 4)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        sequence_parallel: bool = False,
        process_group: ProcessGroup | None = None,
        like: Embedding | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.sequence_parallel, self.process_group = sequence_parallel, chosen(process_group)
        whole = like if like is not None else Embedding(num_embeddings, embedding_dim)
        self.weight = _own_part(whole.weight, 0, self.process_group, "VocabParallelEmbedding")

    def forward(self, input: Tensor) -> Tensor:
        """The vectors of all, or with `sequence_parallel` those of the own part of the sequence."""
        group = self.process_group
        if group.size() == 1:
            return functional.embedding(input, self.weight)
        place, mine = _own_places(input, self.weight.shape[0], group)
        found = functional.embedding(place, self.weight) * mine.unsqueeze(-1)
        return reduce_scatter(found, dim=SEQUENCE, group=group) if self.sequence_parallel else reduce_once(found, group)


def _own_places(index: Tensor, count: int, group: ProcessGroup) -> tuple[Tensor, Tensor]:
    """Where in the own part of a vocabulary indices lie, 0 for those of others, and which are the own ones."""
    with no_grad():
        place = index - group.rank() * count
        mine = (place >= 0) & (place < count)
        return lucid.where(mine, place, 0), mine


def vocab_parallel_cross_entropy(
    logits: Tensor, target: Tensor, process_group: ProcessGroup | None = None, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of logits (..., V) of which each process of a group has a part of the last dimension.

    Only two numbers for each row are exchanged, never logits. The result is alike in all processes.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import vocab_parallel_cross_entropy
    >>> dist.init_process_group("single")
    >>> vocab_parallel_cross_entropy(lucid.zeros(2, 4), lucid.tensor([0, 3]))
    Tensor(1.3863)
    >>> dist.destroy_process_group()
    """
    group = chosen(process_group)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"vocab_parallel_cross_entropy: reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
    with no_grad():
        highest = logits.detach().max(-1).values.contiguous().clone()
        if group.size() > 1:
            distributed.all_reduce(highest, "max", group)
    shifted = logits - highest.unsqueeze(-1)
    place, mine = _own_places(target, logits.shape[-1], group)
    chosen_logit = shifted.gather(-1, place.unsqueeze(-1)).squeeze(-1) * mine
    sums = reduce_once(lucid.stack([shifted.exp().sum(-1), chosen_logit]), group)
    losses = sums[0].log() - sums[1]
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


class SequenceParallelNorm(Module):
    """A normalisation, or any layer that works on each position alone, of which each process computes a part of the sequence.

    Its parameters are alike in all processes, and so are their gradients: the sums over all parts.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import SequenceParallelNorm
    >>> dist.init_process_group("single")
    >>> SequenceParallelNorm(lucid.nn.LayerNorm(4))(lucid.ones(2, 3, 4)).shape
    (2, 3, 4)
    >>> dist.destroy_process_group()
    """

    def __init__(self, module: Module, process_group: ProcessGroup | None = None) -> None:
        super().__init__()
        self.module, self.process_group = module, chosen(process_group)
        for p in module.parameters():
            if self.process_group.size() > 1:
                distributed.broadcast(p.detach(), group=self.process_group, group_src=0)

    def forward(self, input: Tensor) -> Tensor:
        """What the layer makes of the own part."""
        if self.process_group.size() == 1:
            return self.module(input)
        shared = {name: replicate(p, self.process_group) for name, p in self.module.named_parameters()}
        return lucid.func.functional_call(self.module, shared, (input,))


_STYLES = {"column": ColumnParallelLinear, "row": RowParallelLinear}


def parallelize_module(
    module: Module, mesh: DeviceMesh | ProcessGroup | None, plan: Mapping[str, str], sequence_parallel: bool = False
) -> Module:
    """Replace layers of a module by tensor parallel ones with the same weights; returns the module.

    `plan` says which: the name of a layer, in which `*` stands for a number, and "column", "row", "vocabulary" or "sequence".

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import parallelize_module
    >>> dist.init_process_group("single")
    >>> model = lucid.nn.Sequential(lucid.nn.Linear(2, 8), lucid.nn.ReLU(), lucid.nn.Linear(8, 2))
    >>> parallelize_module(model, None, {"0": "column", "2": "row"})[0]
    ColumnParallelLinear(2, 8, bias=True, parts=1)
    >>> dist.destroy_process_group()
    """
    group = chosen(mesh.get_group() if isinstance(mesh, DeviceMesh) else mesh)
    left = set(plan)
    for name, layer in list(module.named_modules()):
        pattern = ".".join("*" if word.isdigit() and name not in plan else word for word in name.split("."))
        style = plan.get(name, plan.get(pattern))
        if style is None:
            continue
        left -= {name, pattern}
        module.set_submodule(name, _parallel(layer, style, group, name, sequence_parallel))
    if left:
        raise ValueError(f"parallelize_module: the module has no layer {', '.join(map(repr, sorted(left)))}")
    return module


def _parallel(layer: Any, style: str, group: ProcessGroup, name: str, sequence_parallel: bool) -> Module:
    if style == "sequence":
        return SequenceParallelNorm(layer, group)
    if style == "vocabulary" and isinstance(layer, Embedding):
        return VocabParallelEmbedding(
            layer.num_embeddings, layer.embedding_dim, sequence_parallel, process_group=group, like=layer
        )
    if style in _STYLES and isinstance(layer, Linear):
        return _STYLES[style](
            layer.in_features, layer.out_features, sequence_parallel=sequence_parallel, process_group=group, like=layer
        )
    raise ValueError(f"parallelize_module: {name!r} is a {type(layer).__name__}, for which there is no style {style!r}")
