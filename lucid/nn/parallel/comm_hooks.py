"""How buckets of gradients are averaged: in fewer bits, for one."""

from collections.abc import Callable
from typing import Any

import lucid
from lucid import Tensor, distributed
from lucid.distributed import ProcessGroup, Work
from lucid.distributed.groups import chosen
from lucid.nn.parallel.reducer import GradBucket

__all__ = ["GradBucket", "Reduced", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]


class Reduced:
    """A bucket that is under way: `wait` gives its average, as `finish` makes it of what was exchanged."""

    def __init__(self, work: Work, finish: Callable[[], Tensor]) -> None:
        self.work, self.finish = work, finish

    def wait(self) -> Tensor:
        """The average, once it is there."""
        self.work.wait()
        return self.finish()


def _in_type(kind: Any, group: ProcessGroup | None, bucket: GradBucket) -> Reduced:
    own = chosen(group)
    sent = bucket.buffer().to(kind) if kind is not None else bucket.buffer()
    sent.div_(own.size())  # before the sum, which might overflow
    work = distributed.all_reduce(sent, group=own, async_op=True)
    assert work is not None
    return Reduced(work, lambda: sent)


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Reduced:
    """The average as it is computed without a hook.

    >>> import lucid
    >>> import lucid.distributed as dist
    >>> from lucid.nn.parallel import DistributedDataParallel, allreduce_hook
    >>> dist.init_process_group("single")
    >>> model = DistributedDataParallel(lucid.nn.Linear(2, 1))
    >>> model.register_comm_hook(None, allreduce_hook)
    >>> dist.destroy_process_group()
    """
    return _in_type(None, process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Reduced:
    """The average of gradients that are rounded to bfloat16: half as many bytes as float32."""
    return _in_type(lucid.bfloat16, process_group, bucket)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Reduced:
    """The average of gradients that are rounded to float16: half as many bytes as float32."""
    return _in_type(lucid.float16, process_group, bucket)
