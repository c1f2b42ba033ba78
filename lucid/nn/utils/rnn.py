"""Sequences of different lengths: padded to one length, or packed step by step without padding.

A packed sequence holds the first elements of all sequences, then the second ones, and so on; sequences are sorted by
length, longest first, so that `batch_sizes[t]` of them take part in step t.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import lucid
from lucid import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences of different lengths, packed; made by `pack_sequence` and `pack_padded_sequence`.

    `sorted_indices` says which sequence of the batch stands at each place, `unsorted_indices` at which place each
    sequence stands; both are None if they were sorted already.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([lucid.tensor([1, 2, 3]), lucid.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (Tensor([1, 4, 2, 3]), Tensor([2, 1, 1]))
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The same with `data.to(...)`."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def float(self) -> "PackedSequence":
        """The same in single precision."""
        return self.to(lucid.float32)

    def double(self) -> "PackedSequence":
        """The same in double precision."""
        return self.to(lucid.float64)

    def cpu(self) -> "PackedSequence":
        """The same: everything is on the CPU."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether a GPU has the elements."""
        return bool(self.data.is_cuda)

    def pin_memory(self) -> "PackedSequence":
        """The same: there is no other memory to copy to."""
        return self


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes a given one.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import invert_permutation
    >>> invert_permutation(lucid.tensor([2, 0, 1]))
    Tensor([1, 2, 0])
    """
    return None if permutation is None else lucid.argsort(permutation)


def _lengths(lengths: Any, name: str) -> list[int]:
    found = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if not found or min(found) <= 0:
        raise RuntimeError(f"{name}: every sequence needs at least one element, but the lengths are {found}")
    return found


def _rows(sizes: Any) -> tuple[Any, Any]:
    """Step and place of each row of a packed sequence."""
    steps, places = np.nonzero(np.arange(sizes[0]) < np.asarray(sizes)[:, None])
    return steps, places


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences that were padded to one length, (length, batch, ...) or with `batch_first` (batch, length, ...).

    With `enforce_sorted` they must come longest first; otherwise they are sorted here.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pack_padded_sequence
    >>> padded = lucid.tensor([[4, 0, 0], [1, 2, 3]])
    >>> pack_padded_sequence(padded, [1, 3], batch_first=True, enforce_sorted=False).data
    Tensor([1, 4, 2, 3])
    """
    counts = _lengths(lengths, "pack_padded_sequence")
    x = input.transpose(0, 1) if batch_first else input
    longest, batch = x.shape[:2]
    if len(counts) != batch or max(counts) > longest:
        raise RuntimeError(
            f"pack_padded_sequence: {len(counts)} lengths up to {max(counts)} do not fit {batch} sequences of {longest} steps"
        )
    order = np.argsort(-np.asarray(counts), kind="stable")
    if enforce_sorted and (np.diff(counts) > 0).any():
        raise RuntimeError(
            f"pack_padded_sequence: lengths must not increase, but are {counts}; sort them, or pass enforce_sorted=False"
        )
    sizes = (np.arange(max(counts))[:, None] < counts).sum(1)
    steps, places = _rows(sizes)
    data = x.reshape(longest * batch, *x.shape[2:]).index_select(0, lucid.tensor(steps * batch + order[places]))
    sorted_indices = None if enforce_sorted else lucid.tensor(order)
    return PackedSequence(data, lucid.tensor(sizes), sorted_indices, invert_permutation(sorted_indices))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences and their lengths, in the order in which they were packed.

    `total_length` pads further than to the longest.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([lucid.tensor([1, 2, 3]), lucid.tensor([4])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (Tensor([[1, 2, 3],
            [4, 0, 0]]), Tensor([3, 1]))
    """
    sizes: list[int] = sequence.batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(f"pad_packed_sequence: total_length {steps} is less than the longest length, {len(sizes)}")
    table = np.full((steps, sizes[0]), sum(sizes))  # the row behind the data, for padding
    table[_rows(sizes)] = np.arange(sum(sizes))
    lengths = (np.arange(sizes[0]) < np.asarray(sizes)[:, None]).sum(0)
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices.tolist()
        table, lengths = table[:, order], lengths[order]
    table = table.T if batch_first else table
    data = sequence.data
    filler = lucid.full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    padded = lucid.cat([data, filler]).index_select(0, lucid.tensor(table.reshape(-1)))
    return padded.reshape(*table.shape, *data.shape[1:]), lucid.tensor(lengths)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences (length, ...) of different lengths, padded to the longest.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pad_sequence
    >>> pad_sequence([lucid.tensor([1, 2, 3]), lucid.tensor([4])], batch_first=True, padding_value=-1)
    Tensor([[ 1,  2,  3],
            [ 4, -1, -1]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side must be 'left' or 'right', not {padding_side!r}")
    if not len(sequences):
        raise RuntimeError("pad_sequence needs at least one sequence")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        filler = lucid.full((longest - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype)
        padded.append(lucid.cat([filler, s] if padding_side == "left" else [s, filler]))
    return lucid.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import unpad_sequence
    >>> unpad_sequence(lucid.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    [Tensor([1, 2, 3]), Tensor([4])]
    """
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = _lengths(lengths, "unpad_sequence")
    if len(counts) != x.shape[0]:
        raise RuntimeError(f"unpad_sequence: {len(counts)} lengths for {x.shape[0]} sequences")
    return [x[i, :n] for i, n in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...) of different lengths.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pack_sequence
    >>> pack_sequence([lucid.tensor([4]), lucid.tensor([1, 2])], enforce_sorted=False).data
    Tensor([1, 4, 2])
    """
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences in a packed sequence.

    >>> import lucid
    >>> from lucid.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([lucid.tensor([1, 2]), lucid.tensor([4])]))
    [Tensor([1, 2]), Tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
