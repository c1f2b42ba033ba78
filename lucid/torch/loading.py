"""`torch.utils.data`: Lucid's, with batches of the front door's tensors."""

from typing import Any

from lucid import data
from lucid.torch.tensors import adopted


def default_collate(batch: Any) -> Any:
    """A batch of a list of samples: tensors, arrays and numbers are stacked, containers kept.

    >>> from lucid.torch.utils.data import default_collate
    >>> default_collate([{"x": 1.0}, {"x": 2.0}])
    {'x': tensor([1., 2.], dtype=torch.float64)}
    """
    return adopted(data.default_collate(batch))


def default_convert(data_: Any) -> Any:
    """Arrays in a sample as tensors.

    >>> import numpy as np
    >>> from lucid.torch.utils.data import default_convert
    >>> default_convert(np.array([1, 2]))
    tensor([1, 2])
    """
    return adopted(data.default_convert(data_))


class DataLoader(data.DataLoader[Any]):
    """Batches of a dataset; see `lucid.data.DataLoader`.

    >>> from lucid.torch.utils.data import DataLoader
    >>> list(DataLoader([1, 2, 3], batch_size=2))
    [tensor([1, 2]), tensor([3])]
    """

    def __init__(self, *args: Any, pin_memory_device: str = "", in_order: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ours = {data.default_collate: default_collate, data.default_convert: default_convert}
        self.collate_fn = ours.get(self.collate_fn, self.collate_fn)


__all__ = ["DataLoader", "default_collate", "default_convert"]
