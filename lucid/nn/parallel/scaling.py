"""What optimizers of parts of parameters need to know of the others: norms of gradients, and whether one is infinite."""

from collections.abc import Iterable, Sequence
from typing import Any

import lucid
from lucid import Tensor
from lucid.amp import GradScaler
from lucid.amp.scaling import read_flag
from lucid.distributed import ProcessGroup
from lucid.distributed.groups import chosen
from lucid.distributed.parts import of_all_parts
from lucid.nn.utils.clip_grad import clip_grads_with_norm_, norm_of_gradients

__all__ = ["ShardedGradScaler", "clip_grad_norm_"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` for processes that have different gradients: a step that one of them leaves out, all leave out.

    `GradScaler` itself does so for the parts that `fully_shard` and parallel layers make.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import ShardedGradScaler
    >>> dist.init_process_group("single")
    >>> ShardedGradScaler("cpu", init_scale=8.0).get_scale()
    8.0
    >>> dist.destroy_process_group()
    """

    def __init__(self, *args: Any, process_group: ProcessGroup | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.process_group = chosen(process_group)

    def _agreed(self, found: Any, params: Sequence[Tensor]) -> Any:
        found = lucid.as_tensor(super()._agreed(found, params))
        return read_flag(of_all_parts(found, [self.process_group], Tensor.any))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    process_group: ProcessGroup | None = None,
) -> Tensor:
    """Scale gradients of parameters of which each process has others, in place, to a norm of all of at most `max_norm`.

    Returned is the norm before. That is for what processes keep to themselves, such as the stages of a pipeline:
    `lucid.nn.utils.clip_grad_norm_` knows the parts that `fully_shard` and parallel layers make.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import clip_grad_norm_
    >>> dist.init_process_group("single")
    >>> x = lucid.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> clip_grad_norm_([x], 1.0), x.grad
    (Tensor(10.), Tensor([0.6, 0.8]))
    >>> dist.destroy_process_group()
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = norm_of_gradients(given, norm_type, chosen(process_group))
    clip_grads_with_norm_(given, max_norm, total)
    return total
