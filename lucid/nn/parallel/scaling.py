"""What optimizers of parts of parameters need to know of the others: norms of gradients, and whether one is infinite."""

from collections.abc import Iterable
from typing import Any

import lucid
from lucid import Tensor, distributed, no_grad
from lucid.amp import GradScaler
from lucid.distributed import ProcessGroup
from lucid.distributed.groups import chosen

__all__ = ["ShardedGradScaler", "clip_grad_norm_"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` for processes that have different gradients: a step that one of them leaves out, all leave out.

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

    def _agreed(self, found: Any) -> Any:
        flag = lucid.tensor([int(found)])
        distributed.all_reduce(flag, "max", self.process_group)
        return bool(flag.item())


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    process_group: ProcessGroup | None = None,
) -> Tensor:
    """Scale gradients of sharded parameters, in place, so that the norm of all parts together is at most `max_norm`.

    Returned is the norm before. See `lucid.nn.utils.clip_grad_norm_`, which is for parameters that each process has whole.

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
    group = chosen(process_group)
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    gradients = [g for p in given if (g := p.grad) is not None]
    is_largest = norm_type == float("inf")
    own = [
        g.detach().abs().max() if is_largest else (g.detach().abs() ** norm_type).sum() for g in gradients if g.numel()
    ]
    total = lucid.stack(own).max() if own and is_largest else lucid.stack(own).sum() if own else lucid.zeros(())
    distributed.all_reduce(total, "max" if is_largest else "sum", group)
    norm = total if is_largest else total ** (1 / norm_type)
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor.to(g.dtype))
    return norm
