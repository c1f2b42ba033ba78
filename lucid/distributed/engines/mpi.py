"""MPI, through mpi4py: buffers are handed over as they are.

Small messages are started by nonblocking calls and then asked for, with sleeps between, so that a wait costs other
processes nothing and can end. MPI's nonblocking collectives are about half as fast for large ones, so these are blocking
calls in a helper thread, one for each communicator, which keeps the order of calls; Open MPI gives way to other threads
there (`mpi_yield_when_idle`).
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

import numpy as np

from lucid.core import dtypes
from lucid.distributed.engines.engine import Counts, Engine, Pending, Receiving, ReduceOp, polled

# Locks stay as they are in a forked child, which belongs to no group (`after_fork` in groups.py).
LARGE = 1 << 16  # bytes from which on blocking calls in a helper thread are faster
MOST = 1 << 30  # elements of one call: MPI counts them with 32 bits
_PAUSE, _LOOKS = (
    5e-4,
    50,
)  # seconds between times at which messages are moved on, and calls that move a part of one each
_GROUP_TAG, _NO_TAG = 32766, 32767  # of messages by which groups are made, and of none

_INSTALL = (
    'backend="mpi" needs mpi4py and an MPI library: pip install "lucid[mpi]" brings both, and where there is an MPI '
    "already, pip install mpi4py"
)


def _loaded() -> Any:
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")  # waits give way to threads that compute
    try:
        import mpi4py
    except ImportError as error:
        raise ImportError(f"{_INSTALL} ({error})") from None
    mpi4py.rc.thread_level = "multiple"
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"{_INSTALL}. mpi4py is here, but found no MPI library: {error}") from None
    return MPI


class _Types:
    """What MPI calls the types and reductions of Lucid."""

    def __init__(self, mpi: Any) -> None:
        names = {
            **{d: f"{d.upper()}_T" for d in "uint8 uint16 uint32 uint64 int8 int16 int32 int64".split()},
            "bool": "C_BOOL", "float32": "FLOAT", "float64": "DOUBLE", "float16": "UINT16_T", "bfloat16": "UINT16_T",
            "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
        }  # fmt: skip
        self.types = {dtypes.as_numpy(name): getattr(mpi, known) for name, known in names.items()}
        words = {
            ReduceOp.SUM: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
            ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
        }  # fmt: skip
        # A sum of truth values is whether one holds, as for tensors.
        truths = {
            "SUM": "LOR",
            "MAX": "LOR",
            "BOR": "LOR",
            "PROD": "LAND",
            "MIN": "LAND",
            "BAND": "LAND",
            "BXOR": "LXOR",
        }
        self.ops = {op: getattr(mpi, word) for op, word in words.items()}
        self.logical = {op: getattr(mpi, truths[word]) for op, word in words.items()}
        self.own: dict[Any, Any] = {}  # reductions of types that MPI does not know
        self.create = mpi.Op.Create

    def op(self, dtype: Any, op: ReduceOp) -> Any:
        if dtype == dtypes.bool_.numpy:
            return self.logical[op]
        if dtype.itemsize != 2 or dtype.kind in "iu":
            return self.ops[op]
        key = dtype, op
        if key not in self.own:
            self.own[key] = self.create(_elementwise(dtype, _COMBINE[op]), commute=True)
        return self.own[key]


_COMBINE = {
    ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum,
}  # fmt: skip


def _elementwise(dtype: Any, combine: Any) -> Callable[..., None]:
    """A reduction of elements of 16 bits. NumPy and ml_dtypes compute with 32 and round once."""

    def reduce(given: Any, held: Any, datatype: Any) -> None:
        into = np.frombuffer(held, dtype)
        combine(np.frombuffer(given, dtype), into, out=into)

    return reduce


class _Requested(Pending):
    """A nonblocking call, with the buffers that it uses."""

    def __init__(self, request: Any, *buffers: Any) -> None:
        self.request, self.buffers, self.ended = request, buffers, False

    def done(self) -> bool:
        self.ended = bool(self.request.Test())
        return self.ended


class _Message(Receiving):
    def __init__(self, request: Any, buffer: Any, status: Any, datatype: Any) -> None:
        self.request, self.buffer, self.status, self.datatype = request, buffer, status, datatype
        self.ended = False

    def done(self) -> bool:
        if not self.request.Test(self.status):
            return False
        self.ended = True
        self.sender, self.count = self.status.Get_source(), self.status.Get_count(self.datatype)
        return True


class _Job(Pending):
    """A call in the helper thread."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.run, self.ended = run, threading.Event()
        self.error: BaseException | None = None
        self.cause = self  # the call whose error it is
        self.is_known = False  # whether somebody was told of it

    def __call__(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.error = error
        self.ended.set()

    def fail_with(self, cause: "_Job") -> None:
        self.cause, self.error = cause, cause.error
        self.ended.set()

    def done(self) -> bool:
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> bool:
        if not self.ended.wait(seconds):
            return False
        if self.error is not None:
            self.cause.is_known = True
            raise self.error
        return True


class _Helper:
    """A thread that makes calls, one after another.

    If one fails, those after it fail with the same error until somebody was told of it: other members may never make them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: SimpleQueue[_Job | None] = SimpleQueue()
        self.thread: threading.Thread | None = None
        self.last: _Job | None = None
        self.failed: _Job | None = None

    def busy(self) -> bool:
        return self.last is not None and (not self.last.ended.is_set() or self.hides_error())

    def hides_error(self) -> bool:
        return self.failed is not None and not self.failed.is_known

    def call(self, run: Callable[[], object]) -> _Job:
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self.thread.start()
        self.last = _Job(run)
        self.queue.put(self.last)
        return self.last

    def _work(self) -> None:
        while (job := self.queue.get()) is not None:
            if self.failed is not None and not self.failed.is_known:
                job.fail_with(self.failed)
                continue
            job()
            if job.error is not None:
                self.failed = job

    def end(self) -> None:
        if self.thread is not None:
            self.queue.put(None)
            self.thread.join()


class _Progress:
    """A thread that lets MPI move large messages on while nobody waits for them: any call does."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.open, self.wanted = comm, WeakSet[Any](), threading.Event()
        self.lock, self.stopped = threading.Lock(), False
        self.thread: threading.Thread | None = None

    def follow(self, message: Any) -> Any:
        with self.lock:
            self.open.add(message)
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name="lucid.distributed messages", daemon=True)
            self.thread.start()
        self.wanted.set()
        return message

    def _work(self) -> None:
        while not self.stopped:
            with self.lock:
                under_way = any(not m.ended for m in self.open)
            if under_way:
                for _ in range(_LOOKS):
                    self.comm.Iprobe(tag=_NO_TAG)  # one that finds a message moves nothing
                time.sleep(_PAUSE)
            else:
                self.wanted.wait(0.1)
                self.wanted.clear()

    def end(self) -> None:
        self.stopped = True
        self.wanted.set()
        if self.thread is not None:
            self.thread.join()


class MPIEngine(Engine):
    """The members of an MPI communicator, which belongs to the engine."""

    name = "mpi"

    def __init__(self, comm: Any = None, label: str = "world") -> None:
        self.mpi = _loaded()
        self.comm = self.mpi.COMM_WORLD.Dup() if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.is_threaded = self.mpi.Query_thread() == self.mpi.THREAD_MULTIPLE
        self.types = _Types(self.mpi)
        self.helper = _Helper(f"lucid.distributed {label}")
        self.progress = _Progress(self.comm)
        self.lock = threading.Lock()  # calls start in the order in which threads ask for them

    def part(self, ranks: Sequence[int], name: str) -> Engine | None:
        if self.rank not in ranks:
            return None
        group = self.comm.Get_group().Incl(list(ranks))
        return MPIEngine(self.comm.Create_group(group, _GROUP_TAG), name)

    def _start(self, call: str, nbytes: int, *args: Any, **options: Any) -> Pending:
        """A call of the communicator: by the helper if it is a large one, or if the helper has others to make before."""
        with self.lock:
            if nbytes >= LARGE and self.is_threaded:
                return self.helper.call(lambda: getattr(self.comm, call.capitalize())(*args, **options))
            start = getattr(self.comm, f"I{call}")
            if self.helper.busy():
                return self.helper.call(lambda: polled(_Requested(start(*args, **options)).done, None))
            return _Requested(start(*args, **options), args)

    def _start_in_pieces(
        self, call: str, buffer: Any, arguments: Callable[[Any], tuple[Any, ...]], **options: Any
    ) -> Pending:
        """A call for a buffer of any length, of which the same holds for each part."""
        if buffer.size <= MOST:
            return self._start(call, buffer.nbytes, *arguments(self._spec(buffer)), **options)
        specs = [self._spec(buffer[i : i + MOST]) for i in range(0, buffer.size, MOST)]
        blocking = getattr(self.comm, call.capitalize())
        with self.lock:
            return self.helper.call(lambda: [blocking(*arguments(spec), **options) for spec in specs])

    def _spec(self, array: Any, counts: Counts = None) -> Any:
        if array is None:
            return None
        datatype = self.types.types[array.dtype]
        flat = array.reshape(-1).view(np.uint16) if datatype == self.mpi.UINT16_T else array
        return [flat, array.size if counts is None else (list(counts), None), datatype]

    def barrier(self) -> Pending:
        return self._start("barrier", 0)

    def broadcast(self, buffer: Any, root: int) -> Pending:
        return self._start_in_pieces("bcast", buffer, lambda spec: (spec,), root=root)

    def all_reduce(self, buffer: Any, op: ReduceOp) -> Pending:
        known = self.types.op(buffer.dtype, op)
        return self._start_in_pieces("allreduce", buffer, lambda spec: (self.mpi.IN_PLACE, spec), op=known)

    def reduce(self, buffer: Any, op: ReduceOp, root: int) -> Pending:
        known, in_place = self.types.op(buffer.dtype, op), self.mpi.IN_PLACE
        pair = (lambda spec: (in_place, spec)) if self.rank == root else (lambda spec: (spec, None))
        return self._start_in_pieces("reduce", buffer, pair, op=known, root=root)

    def all_gather(self, source: Any, target: Any, counts: Counts = None) -> Pending:
        given = self.mpi.IN_PLACE if _is_part(source, target) else self._spec(source)
        if counts is None:
            return self._start("allgather", target.nbytes, given, self._parts(target))
        return self._start("allgatherv", target.nbytes, given, self._spec(target, counts))

    def _parts(self, array: Any) -> Any:
        """Equal parts, one for each member."""
        if array is None:
            return None
        spec = self._spec(array)
        spec[1] = array.size // self.size
        return spec

    def gather(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        given, nbytes = self._spec(source), source.nbytes * self.size
        if counts is None:
            return self._start("gather", nbytes, given, self._parts(target), root=root)
        return self._start("gatherv", 0, given, self._spec(target, counts), root=root)

    def scatter(self, source: Any, target: Any, root: int, counts: Counts = None) -> Pending:
        taken, nbytes = self._spec(target), target.nbytes * self.size
        if counts is None:
            return self._start("scatter", nbytes, self._parts(source), taken, root=root)
        return self._start("scatterv", 0, self._spec(source, counts), taken, root=root)

    def reduce_scatter(self, source: Any, target: Any, op: ReduceOp, counts: Counts = None) -> Pending:
        known, taken = self.types.op(source.dtype, op), self._spec(target)
        if counts is None:
            return self._start("reduce_scatter_block", source.nbytes, self._parts(source), taken, op=known)
        return self._start("reduce_scatter", source.nbytes, self._spec(source), taken, list(counts), op=known)

    def all_to_all(self, source: Any, target: Any, given: Counts = None, taken: Counts = None) -> Pending:
        if given is None and taken is None:
            return self._start("alltoall", source.nbytes, self._parts(source), self._parts(target))
        # Members move different numbers of bytes, and all must make the same call.
        return self._start("alltoallv", 0, self._spec(source, given), self._spec(target, taken))

    def send(self, buffer: Any, to: int, tag: int) -> Pending:
        spec = self._spec(buffer)
        return self._followed(_Requested(self.comm.Isend(spec, to, tag), spec), buffer)

    def _followed(self, message: Any, buffer: Any) -> Any:
        return self.progress.follow(message) if buffer.nbytes >= LARGE and self.is_threaded else message

    def recv(self, buffer: Any, sender: int | None, tag: int) -> Receiving:
        spec = self._spec(buffer)
        request = self.comm.Irecv(spec, self.mpi.ANY_SOURCE if sender is None else sender, tag)
        message: Receiving = self._followed(_Message(request, spec, self.mpi.Status(), spec[2]), buffer)
        return message

    def busy(self) -> bool:
        return self.helper.busy()

    def close(self) -> None:
        self.helper.end()
        self.progress.end()
        self.comm.Free()

    def abort(self, why: str) -> None:
        self.mpi.COMM_WORLD.Abort(1)


def _is_part(source: Any, target: Any) -> bool:
    return bool(np.shares_memory(source, target)) if source.size else False
