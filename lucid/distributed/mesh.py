"""Processes in a grid, with a group along each of its dimensions: data parallel along one, tensor parallel along another."""

from collections.abc import Sequence
from math import prod
from typing import Any

from lucid.distributed.groups import ProcessGroup, chosen, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Processes in a grid of any number of dimensions; `init_device_mesh` makes one of all.

    `mesh` has the ranks, nested as deep as there are dimensions. All processes make it, in the same order.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> mesh = dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("data", "tensor"))
    >>> mesh.shape, mesh["tensor"].get_group()
    ((1, 1), <ProcessGroup 'tensor of mesh' of 1, backend single>)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, device_type: str = "cpu", mesh: Any = (0,), *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        ranks = mesh.tolist() if hasattr(mesh, "tolist") else mesh
        self.device_type, self.shape = device_type, _shape(ranks)
        self._ranks = _flat(ranks)
        self.mesh_dim_names = _names(mesh_dim_names, len(self.shape))
        if len(set(self._ranks)) != prod(self.shape):
            raise ValueError(
                f"DeviceMesh: each rank may be in the grid once, and rows must be equally long, not {ranks}"
            )
        self._groups = [self._along(dim) for dim in range(self.ndim)]

    def _along(self, dim: int) -> Any:
        """The group of the line through this process along a dimension; all processes make those of all lines."""
        own = None
        for line in _lines(self._ranks, self.shape, dim):
            made = new_group(line, group_desc=f"{self._name(dim)} of mesh")
            own = made if isinstance(made, ProcessGroup) else own
        return own

    def _name(self, dim: int) -> str:
        return self.mesh_dim_names[dim] if self.mesh_dim_names else f"dimension {dim}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, in all or along a dimension."""
        return prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """The rank of this process among all."""
        return chosen().rank()

    def get_coordinate(self) -> list[int] | None:
        """Where in the grid this process is; None if it is not in it."""
        rank = self.get_rank()
        if rank not in self._ranks:
            return None
        place, out = self._ranks.index(rank), []
        for length in reversed(self.shape):
            place, index = divmod(place, length)
            out.append(index)
        return out[::-1]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The number of this process along a dimension, which may be left out if there is one."""
        return self.get_group(mesh_dim).rank()

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of processes along a dimension, which may be left out if there is one."""
        if mesh_dim is None and self.ndim != 1:
            raise ValueError(f"DeviceMesh: say which of {self.ndim} dimensions is meant, by its number or name")
        group = self._groups[self._number(mesh_dim or 0)]
        if group is None:
            raise ValueError(f"DeviceMesh: rank {self.get_rank()} is not in the grid of ranks {self._ranks}")
        found: ProcessGroup = group
        return found

    def _number(self, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        if dim not in (self.mesh_dim_names or ()):
            raise KeyError(f"DeviceMesh: there is no dimension {dim!r}; the names are {self.mesh_dim_names}")
        return (self.mesh_dim_names or ()).index(dim)

    def __getitem__(self, name: str) -> "DeviceMesh":
        """The line through this process along one dimension, as a mesh."""
        dim = self._number(name)
        out = DeviceMesh.__new__(DeviceMesh)
        out.device_type, out._groups, out.mesh_dim_names = self.device_type, [self._groups[dim]], (self._name(dim),)
        out.shape = (self.shape[dim],)
        out._ranks = list(self._groups[dim].ranks) if self._groups[dim] is not None else []
        return out

    def __repr__(self) -> str:
        names = self.mesh_dim_names or tuple(map(str, range(self.ndim)))
        return f"DeviceMesh({', '.join(f'{n}={s}' for n, s in zip(names, self.shape, strict=True))})"


def init_device_mesh(
    device_type: str = "cpu", mesh_shape: Sequence[int] = (1,), *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """All processes in a grid of a shape, neighbours along the last dimension. All of them call it.

    >>> import lucid.distributed as dist
    >>> dist.init_process_group("single")
    >>> dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "tensor"))
    DeviceMesh(data=1, tensor=1)
    >>> dist.destroy_process_group()
    """
    size = chosen().size()
    if prod(mesh_shape) != size:
        raise ValueError(f"init_device_mesh: {tuple(mesh_shape)} has {prod(mesh_shape)} places for {size} processes")
    return DeviceMesh(device_type, _nested(list(range(size)), list(mesh_shape)), mesh_dim_names=mesh_dim_names)


def _nested(ranks: list[int], shape: list[int]) -> Any:
    if len(shape) <= 1:
        return ranks
    step = len(ranks) // shape[0]
    return [_nested(ranks[i : i + step], shape[1:]) for i in range(0, len(ranks), step)]


def _shape(ranks: Any) -> tuple[int, ...]:
    return (len(ranks), *_shape(ranks[0])) if isinstance(ranks, (list, tuple)) else ()


def _flat(ranks: Any) -> list[int]:
    return [r for row in ranks for r in _flat(row)] if isinstance(ranks, (list, tuple)) else [ranks]


def _names(names: Sequence[str] | None, ndim: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) != ndim or len(names) != ndim:
        raise ValueError(f"DeviceMesh: expected {ndim} different names of dimensions, not {tuple(names)}")
    return tuple(names)


def _lines(ranks: list[int], shape: Sequence[int], dim: int) -> list[list[int]]:
    """The ranks along a dimension, for each place in the others."""
    step = prod(shape[dim + 1 :])
    starts = [i for i in range(len(ranks)) if i // step % shape[dim] == 0]
    return [[ranks[start + k * step] for k in range(shape[dim])] for start in starts]
