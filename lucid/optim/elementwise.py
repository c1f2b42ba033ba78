"""The base of optimizers that treat each element alone: which is most of them.

A subclass states its formula once, in NumPy's ufuncs with an output argument. It runs on bare arrays in `layout`'s
windows, and on tensors where parameters are batched, dual or traced, or the step itself is to be differentiated.
"""

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Any, ClassVar

import numpy as np

from lucid.api.creation import full_like
from lucid.api.joining import stack
from lucid.autograd.modes import no_grad
from lucid.backends.cpu import loops
from lucid.backends.cpu.generated.updates import is_generated, update_of
from lucid.core.levels import capturing, trace
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor, is_plain
from lucid.ir.repetition import Repeated
from lucid.kinds.kind import Kind
from lucid.native import in_use
from lucid.ops.expressions import Expression
from lucid.ops.rules import P
from lucid.ops.sparse.tensor import Sparse
from lucid.optim.layout import Bucket, Run, Scratch, Window, kept, packed, working_type
from lucid.optim.optimizer import Closure, Group, Optimizer, Params

add, divide, multiply, negative, subtract = np.add, np.divide, np.multiply, np.negative, np.subtract
ndarray = np.ndarray
TINY = {np.dtype(kind): float(np.finfo(kind).tiny) for kind in (np.float32, np.float64)}
Operand = Any  # an array, or a cell with a tensor
_OPTIONS = (bool, int, float, type(None))  # those that a formula decides by, and then by whether they are 0
_loops: dict[Any, Any] = {}  # generated ones, by class, options and types


class Elementwise(Optimizer):
    """An optimizer whose update of an element depends on that element, its gradient and its state only."""

    reads_numbers = True
    _counters: ClassVar[dict[str, float]] = {"step": 0.0}  # numbers kept for each parameter, and where they start

    _homes: dict[Tensor, tuple[Bucket, int]]  # where the state of each parameter lies
    _plan: list[tuple[Group, list[Run], list[Tensor]]]  # for each group, what is done on arrays and what on tensors
    _known: list[Any]  # the facts that the plan was made for
    _scratch: dict[np.dtype[Any], Scratch]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self._forget_layout()
        super().__init__(params, defaults)

    # What a subclass states.

    def _slots(self, group: Group) -> tuple[str, ...]:
        """The names of the arrays kept for each parameter: a constant for each setting of the options."""
        return ()

    def _initial(self, group: Group, name: str) -> Any:
        """What such an array is filled with at first."""
        return 0.0

    def _tick(self, group: Group, *counts: Any) -> tuple[Any, ...]:
        """The counters of this step from those of the last one."""
        return tuple([count + 1 for count in counts])

    def _coefficients(self, group: Group, fresh: bool, *counts: Any) -> Sequence[Any]:
        """The numbers in the formula at this count; `fresh` says whether the state was made just now."""
        raise AssertionError("each optimizer has its own")

    def _update(self, group: Group, c: Sequence[Any], g: Operand, u: Operand, w: Operand, *slots: Operand) -> None:
        """Bring the slots up to date with the gradient `g`, and put into `u` what is subtracted from the parameter.

        `c` are the coefficients, and `w` is free to use.
        """
        raise AssertionError("each optimizer has its own")

    def _decoupled(self, group: Group) -> bool:
        """Whether weight decay shrinks the parameter instead of being added to the gradient."""
        return bool(group.get("decoupled_weight_decay"))

    def _by_rows(self, group: Group) -> bool | None:
        """Whether a sparse gradient changes its rows alone; None if sparse gradients are not taken."""
        return None

    # One step.

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient; returns the loss if a closure that computes it is given."""
        loss = self._loss(closure)
        if capturing():
            self._step_in_program(trace.get())
            return loss
        found = self._gradients()
        while found is None:
            self._known = []
            found = self._gradients()
        for (group, runs, tensors), gradients in zip(self._plan, found, strict=True):
            for run, arrays in zip(runs, gradients, strict=True):
                self._step_run(group, run, arrays)
            for p in tensors:
                self._step_tensor(group, p)
        return loss

    def _gradients(self) -> list[list[Any]] | None:
        """Those of each run of a plan for what the parameters have now; None if another thread has just removed one."""
        facts = self._facts()
        if len(facts) != len(self._known) or not all(map(is_, facts, self._known)) or not self._read_counts():
            self._make_plan()
            self._read_counts()
            self._known = self._facts()
        found = [[run.gradients() for run in runs] for _, runs, _ in self._plan]
        return None if any(None in arrays for arrays in found) else found

    def _step_run(self, group: Group, run: Run, gradients: list[Any]) -> None:
        counts = self._tick(group, *run.now)
        c = run.scratch.scalars(self._all_coefficients(group, run.fresh, *counts))
        reads_p = bool(group.get("weight_decay"))
        for window in run.windows:
            window.load(gradients, reads_p)
            self._step_window(group, c, window)
        run.write(counts)
        run.fresh = False
        storages = [storage_of(p) for p in run.params]
        storages.append(run.bucket.storage)
        self._note_writes(storages + [storage_of(t) for t in run.bucket.loose])

    def _step_window(self, group: Group, c: Sequence[Any], window: Window) -> None:
        """Update the parameters of a window, which is loaded, and their state."""
        # In one pass: the parameters themselves where they lie in order, and what is taken off them elsewhere.
        loop = self._loop(group, c, window) if is_generated() else None
        target = window.p if window.direct else window.u
        if loop is None or not loop((window.p, window.g, *window.slots, target, *window.slots), c):
            self._advance(group, c, window.p, window.g, window.t, window.u, window.w, window.slots)
        elif window.direct:
            window.let_go()
            return
        window.apply()

    def _loop(self, group: Group, c: Sequence[Any], window: Window) -> Any:
        """The generated loop of the formula with these options; None if there is none."""
        chosen = tuple([bool(v) for v in group.values() if type(v) in _OPTIONS])
        key = (type(self), chosen, len(c), len(window.slots), window.p.dtype, window.direct)
        if key not in _loops:
            options = dict(group)
            _loops[key] = update_of(
                lambda arrays, numbers: self._formula(options, window.direct, arrays, numbers),
                window.p.dtype,
                2 + len(window.slots),
                len(c),
                type(self).__name__,
            )
        return _loops[key]

    def _formula(self, group: Group, direct: bool, arrays: Sequence[Any], c: Sequence[Any]) -> list[Any]:
        """What becomes of a parameter (or is taken off it) and of its state, as expressions."""
        p, g, *slots = [Cell(a) for a in arrays]
        u = Cell()
        self._advance(group, [Cell(number) for number in c], p, g, Cell(), u, Cell(), slots)
        return [p.value - u.value if direct else u.value, *[slot.value for slot in slots]]

    def _all_coefficients(self, group: Group, fresh: bool, *counts: Any) -> tuple[Any, ...]:
        """The factor of weight decay, and those of the formula."""
        decay = group.get("weight_decay", 0)
        return (group["lr"] * decay if self._decoupled(group) else decay, *self._coefficients(group, fresh, *counts))

    def _advance(
        self, group: Group, c: Sequence[Any], p: Operand, g: Operand, t: Operand, u: Operand, w: Operand,
        slots: Sequence[Operand],
    ) -> None:  # fmt: skip
        """Put into `u` what is to be subtracted from `p`; `t` takes the gradient if it is not used as it is."""
        decays = bool(group.get("weight_decay"))
        if group.get("maximize"):
            g = negative(g, t)
        if decays and not self._decoupled(group):
            g = add(g, multiply(p, c[0], w), t)
        self._update(group, c[1:], g, u, w, *slots)
        if decays and self._decoupled(group):
            add(u, multiply(p, c[0], w), u)

    # The general way, on tensors.

    def _step_tensor(self, group: Group, p: Tensor) -> None:
        gradient = p.grad
        if gradient is None:  # since another thread has just removed it
            return
        if isinstance(gradient, Sparse):
            by_rows = self._by_rows(group)
            if by_rows is None:
                raise RuntimeError(
                    f"{type(self).__name__} takes no sparse gradients; use SparseAdam, Adagrad or SGD, or a layer with "
                    "sparse=False"
                )
            if by_rows and gradient.sparse_dim() == 1 and is_plain(p) and not group.get("differentiable"):
                with no_grad():
                    self._advance_rows(group, p, gradient.coalesce())
                return
            gradient = gradient.to_dense()
        if group.get("differentiable"):
            self._advance_tensor(group, p, gradient)
        else:
            with no_grad():
                self._advance_tensor(group, p, gradient)

    def _advance_rows(self, group: Group, p: Tensor, gradient: Sparse) -> None:
        """The formula on the rows that have a gradient, and their state."""
        slots = self._slots(group)
        entry, fresh, counts = self._entry(group, p)
        rows = gradient._indices()[0]
        held = (p, *[entry[name] for name in slots])
        p_cell, *kept = (Cell(_as_reals(P.index(t, rows))) for t in held)
        t, g, u, w = Cell(), Cell(_as_reals(gradient._values())), Cell(), Cell()
        self._advance(group, self._all_coefficients(group, fresh, *counts), p_cell, g, t, u, w, kept)
        for target, value in zip(held, (p_cell.value - u.value, *[cell.value for cell in kept]), strict=True):
            target[rows] = _from_reals(value, p)

    def _entry(self, group: Group, p: Tensor) -> tuple[dict[str, Any], bool, tuple[Any, ...]]:
        """The state of a parameter, whether it was made just now, and its counters, which are one step further."""
        slots = self._slots(group)
        entry = self.state[p] if slots or self._counters else {}
        if p in self._homes:
            self._homes[p][0].let_go(entry.values())
        fresh = any(entry.get(name) is None for name in slots)
        for name in slots:
            if entry.get(name) is None:
                entry[name] = full_like(p, self._start(group, name, p.is_complex()))
        for name, start in self._counters.items():
            entry.setdefault(name, kept(p, np.array(start, np.float32)))
        # Powers of the count are taken in double precision: 1 - 0.999 would lose half the digits otherwise.
        counts = self._tick(group, *[entry[name].double() for name in self._counters])
        for name, count in zip(self._counters, counts, strict=True):
            entry[name].copy_(count)
        return entry, fresh, counts

    def _advance_tensor(self, group: Group, p: Tensor, gradient: Tensor) -> None:
        slots = self._slots(group)
        entry, fresh, counts = self._entry(group, p)
        differentiable = bool(group.get("differentiable"))
        old = p.clone() if differentiable else p  # weight decay saves it, and p itself is written below
        p_cell, g_cell, *kept = (Cell(_as_reals(t)) for t in (old, gradient, *[entry[name] for name in slots]))
        t, u, w = Cell(), Cell(), Cell()
        self._advance(group, self._all_coefficients(group, fresh, *counts), p_cell, g_cell, t, u, w, kept)
        for name, cell in zip(slots, kept, strict=True):
            if differentiable:
                entry[name] = _from_reals(cell.value, p)
            else:
                entry[name].copy_(_from_reals(cell.value, p))
        p.copy_(_from_reals(p_cell.value - u.value, p))

    def _start(self, group: Group, name: str, is_complex: bool) -> float | complex:
        """The first value of a slot, the same for both parts of a complex number."""
        value = float(self._initial(group, name))
        return complex(value, value) if is_complex else value

    # In a program that `lucid.compile` traces: the same numbers at the same places, as operations on tensors.

    def _step_in_program(self, program: Any) -> None:
        unbegun = self._unbegun()
        if unbegun:
            program.begin(partial(self._begin, unbegun), partial(self._end, unbegun))
        with no_grad():
            for group in self.param_groups:
                if group.get("differentiable"):
                    raise NotImplementedError(
                        f"{type(self).__name__}: a step with differentiable=True is not compiled; leave it out of the function"
                    )
                alike: dict[Any, list[Tensor]] = {}
                for p in group["params"]:
                    if p.grad is not None:
                        alike.setdefault(self._stage_of(group, p, program), []).append(p)
                for (new, fresh, ahead, kind, *_), params in alike.items():
                    read = CoefficientReader(self, group, params, new, fresh, ahead)
                    numbers = program.numbers(read, kind)
                    formula = Repeated(program, partial(self._new_values, group, len(numbers)))
                    for p in params:
                        self._advance_in_program(group, p, numbers, formula)

    def _unbegun(self) -> list[tuple[Group, Tensor]]:
        """The parameters that are to be updated for the first time, with their groups, if that is a step like others."""
        found: list[tuple[Group, Tensor]] = []
        for group in self.param_groups:
            if any(isinstance(option, Tensor) for option in group.values()):
                continue
            counts = self._tick(group, *self._counters.values())
            first, later = [self._all_coefficients(group, fresh, *counts) for fresh in (True, False)]
            if first == later and (self._counters or self._slots(group)):
                found += [(group, p) for p in group["params"] if p.grad is not None and not self.state.get(p)]
        return found

    def _begin(self, params: Sequence[tuple[Group, Tensor]]) -> None:
        """Make the state of parameters before their first step."""
        with no_grad():
            for group, p in params:
                entry = self.state[p]
                for name, start in self._counters.items():
                    entry[name] = kept(p, np.array(start, np.float32))
                for name in self._slots(group):
                    entry[name] = full_like(p, self._start(group, name, p.is_complex()))

    def _end(self, params: Sequence[tuple[Group, Tensor]]) -> None:
        """Remove it again."""
        for _, p in params:
            self.state.pop(p, None)

    def _stage_of(self, group: Group, p: Tensor, program: Any) -> tuple[Any, ...]:
        """What coefficients depend on, the same for parameters that are alike.

        Whether the program makes the state, and just now; how many steps it took before; the type to compute in, and the
        counters from which it starts.
        """
        entry = self.state.get(p, {})
        fresh = any(entry.get(name) is None for name in self._slots(group))
        ahead, new, counts = program.ticks.get((id(self), id(p)), (0, fresh or not entry, ()))
        if not ahead and not new:
            counts = tuple([float(entry[name]._array) for name in self._counters])
        if ahead and program.skips:
            raise NotImplementedError("lucid.compile: several steps of one optimizer that a GradScaler may leave out")
        program.ticks[id(self), id(p)] = ahead + 1, new, counts
        return new, fresh, ahead, np.dtype(working_type(p._array)), *counts

    def _advance_in_program(self, group: Group, p: Tensor, numbers: Sequence[Any], formula: Repeated) -> None:
        slots = self._slots(group)
        entry = self.state[p] if slots or self._counters else {}
        for name in slots:
            if entry.get(name) is None:
                entry[name] = full_like(p, self._start(group, name, p.is_complex()))
        for name, count in zip(self._counters, numbers, strict=False):
            if isinstance(entry.get(name), Tensor):
                entry[name].copy_(count)
            else:
                entry[name] = count.to(np.dtype(np.float32)).clone()
        held = [*[entry[name] for name in slots], p]
        for tensor, new in zip(held, formula(*numbers, *held, p.grad), strict=True):
            tensor.copy_(new)

    def _new_values(self, group: Group, count: int, *given: Any) -> list[Any]:
        """What becomes of the state and of a parameter: of numbers, those and the gradient."""
        coefficients = given[len(self._counters) : count]
        p = given[-2]
        *kept, p_cell, g_cell = [Cell(_as_reals(t)) for t in given[count:]]
        t, u, w = Cell(), Cell(), Cell()
        self._advance(group, coefficients, p_cell, g_cell, t, u, w, kept)
        return [_from_reals(value, p) for value in (*[cell.value for cell in kept], p_cell.value - u.value)]

    # Plans.

    def _facts(self) -> list[Any]:
        """All that a plan was made for, as objects that are the same ones as long as it holds."""
        groups = self.param_groups
        params = [p for group in groups for p in group["params"]]
        facts: list[Any] = [p._array for p in params]
        facts += [type(p._grad) for p in params]
        facts += [getattr(value, "_array", value) for entry in self.state.values() for value in entry.values()]
        for group in groups:
            facts.append(self._slots(group))
            facts.append(group.get("differentiable"))
        return facts

    def _read_counts(self) -> bool:
        return all(run.read() for _, runs, _ in self._plan for run in runs)

    def _make_plan(self) -> None:
        self._plan = []
        for group in self.param_groups:
            active = [p for p in group["params"] if p._grad is not None]
            tensors = [p for p in active if group.get("differentiable") or _is_kind(p) or _is_kind(p._grad)]
            known = {id(p) for p in tensors}
            plain = [p for p in active if id(p) not in known]
            for p in plain:
                p._raise_if_read_only(f"{type(self).__name__}.step")
            fresh = self._settle(group, plain)
            self._plan.append((group, self._runs(plain, fresh), tensors))

    def _settle_now(self, group: Group) -> None:
        """Make the state of a group before its first step."""
        if not group.get("differentiable"):
            self._settle(group, [p for p in group["params"] if not _is_kind(p)])

    def _settle(self, group: Group, params: Sequence[Tensor]) -> set[int]:
        """Give a place in a bucket to every parameter that has none; returns those whose state was made new, by id."""
        slots = self._slots(group)
        names = (*slots, *self._counters)
        homeless = []
        for p in params:
            bucket, i = self._homes.get(p, (None, 0))
            if bucket is None or not bucket.holds(i, self.state.get(p, {}), names):
                homeless.append(p)
        for p in homeless:
            for name in slots:
                _check_state(name, self.state.get(p, {}).get(name), p)
        fresh = set()
        for batch in packed(homeless):
            bucket = Bucket(batch, slots, tuple(self._counters))
            for i, p in enumerate(batch):
                self._homes[p] = bucket, i
                if names and self._move_in(group, p, bucket, i):
                    fresh.add(id(p))
        return fresh

    def _move_in(self, group: Group, p: Tensor, bucket: Bucket, i: int) -> bool:
        """Bring the state of a parameter, or a new one, into its bucket; whether it is new."""
        entry = self.state[p]
        fresh = False
        for name, view in bucket.views[i].items():
            old = entry.get(name)
            if old is not None:
                view[...] = old._array if isinstance(old, Tensor) else old
            elif name in self._counters:
                view[...] = self._counters[name]
            else:
                view[...] = self._start(group, name, view.dtype.kind == "c")
                fresh = True
            made = entry[name] = kept(p, view)
            made._meta = bucket.storage
        return fresh

    def _runs(self, params: Sequence[Tensor], fresh: set[int]) -> list[Run]:
        """Stretches of neighbours in their buckets that are at the same count."""
        stretches: list[list[Any]] = []
        for bucket, i in sorted((self._homes[p] for p in params), key=lambda home: (home[0].number, home[1])):
            key = (id(bucket.params[i]) in fresh, *bucket.counts[:, i].tolist())
            last = stretches[-1] if stretches else None
            if last is not None and last[0] is bucket and last[2] == i and last[3] == key:
                last[2] = i + 1
            else:
                stretches.append([bucket, i, i + 1, key])
        return [Run(bucket, first, stop, key[0], self._scratch_for(bucket)) for bucket, first, stop, key in stretches]

    def _scratch_for(self, bucket: Bucket) -> Scratch:
        kind = working_type(bucket.params[0]._array)
        if kind not in self._scratch:
            self._scratch[kind] = Scratch(kind)
        return self._scratch[kind]

    def _forget_layout(self) -> None:
        self._homes = {}
        self._plan = []
        self._known = []
        self._scratch = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget_layout()


def _is_kind(tensor: Any) -> bool:
    """Whether a tensor is of a transform, or sparse: what is no array."""
    return isinstance(tensor, (Kind, Sparse))


def _as_reals(tensor: Any) -> Any:
    """What the formula works on: complex numbers as pairs, 16-bit floats widened, others as they are."""
    if tensor.is_complex():
        return stack([tensor.real, tensor.imag], -1)
    return tensor.float() if tensor.itemsize < 4 else tensor


def _from_reals(tensor: Any, like: Tensor) -> Any:
    """The same the other way."""
    return (tensor[..., 0] + 1j * tensor[..., 1] if like.is_complex() else tensor).to(like.np_dtype)


class Cell:
    """Holds a tensor in the place of an array: what a ufunc is to write into the array, the cell holds from then on.

    So a formula in terms of writes becomes one in terms of values, which can be recorded, batched and traced.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None) -> "Cell":
        return self.__array_function__(getattr(ufunc, method), (), inputs, {}, out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any, out: Any = None) -> "Cell":
        result = func(*[a.value if isinstance(a, Cell) else a for a in args], **kwargs)
        if out is None:
            return Cell(result)
        out[0].value = result
        return out[0]


class CoefficientReader:
    """The counters and coefficients of a step of some parameters, read anew for each run of a program."""

    def __init__(
        self, optimizer: Elementwise, group: Group, params: Sequence[Tensor], new: bool, fresh: bool, ahead: int
    ) -> None:
        self.optimizer, self.group, self.params = optimizer, group, list(params)
        self.new, self.fresh, self.ahead = new, fresh, ahead
        self.slots = optimizer._slots(group)
        self.decisions = [_truth(v) for v in group.values()]
        self.options = list(group.values())

    def __call__(self) -> list[float] | None:
        """The numbers; None if the program does not serve any more: other slots, or counters that have come to differ."""
        optimizer, group = self.optimizer, self.group
        options = list(group.values())
        if len(options) != len(self.options) or not all(map(is_, options, self.options)):
            if [_truth(v) for v in options] != self.decisions or optimizer._slots(group) != self.slots:
                return None
            self.options = options
        if self.new:
            now: Any = list(optimizer._counters.values())
        else:
            state = optimizer.state
            now = []
            for name in optimizer._counters:
                found = [state[p][name]._array.item() for p in self.params]
                if found.count(found[0]) != len(found):
                    return None
                now.append(found[0])
        for _ in range(self.ahead):
            now = optimizer._tick(group, *now)
        counts = optimizer._tick(group, *now)
        return [float(n) for n in (*counts, *optimizer._all_coefficients(group, self.fresh, *counts))]


def _truth(option: Any) -> Any:
    """What a formula sees of an option when it decides what to do."""
    return bool(option) if type(option) in _OPTIONS else None


def _check_state(name: str, value: Any, p: Tensor) -> None:
    if value is not None and (not isinstance(value, Tensor) or value.shape != p.shape or _is_kind(value)):
        found = f"of shape {value.shape}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise ValueError(f"the state {name!r} of a parameter of shape {p.shape} is {found}; it must have that shape")


def follow(average: Operand, value: Operand, weight: Any, u: Operand) -> None:
    """average += weight · (value - average)"""
    if in_use and type(average) is ndarray:
        loops.follow(average, value, weight, TINY[average.dtype])
        return
    subtract(value, average, u)
    multiply(u, weight, u)
    add(average, u, average)
    _drop_tiny(average)


def _drop_tiny(average: Operand) -> None:
    """Make 0 of what is below the smallest normal number, in loops: arithmetic with such numbers is many times slower."""
    x = average.value if isinstance(average, Cell) else None
    if isinstance(x, Expression) or (x is not None and capturing() and x.np_dtype in TINY):
        average.value = P.where(P.abs(x) < TINY[x.np_dtype], 0.0, x)


def accumulate_square(total: Operand, g: Operand, keep: Any, weight: Any, u: Operand) -> None:
    """total = keep · total + weight · g²"""
    if in_use and type(total) is ndarray:
        loops.accumulate_square(total, g, keep, weight, TINY[total.dtype])
        return
    multiply(g, g, u)
    multiply(u, weight, u)
    multiply(total, keep, total)
    add(total, u, total)
    _drop_tiny(total)


def scale_by_root(x: Operand, squares: Operand, eps: Any, rate: Any, u: Operand) -> None:
    """u = x / (√squares + eps) · rate"""
    if in_use and type(u) is ndarray:
        loops.scale_by_root(x, squares, eps, rate, u)
        return
    np.sqrt(squares, u)
    add(u, eps, u)
    divide(x, u, u)
    multiply(u, rate, u)
