"""The base of all optimizers: groups of parameters, state, saving and loading, hooks."""

import copy
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from lucid.arguments.promotion import described
from lucid.autograd.modes import enable_grad
from lucid.core.hooks import RemovableHandle
from lucid.core.levels import trace, tracing
from lucid.core.source_lines import here
from lucid.core.storage import Storage
from lucid.core.tensor import Tensor
from lucid.core.tree import flatten

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]
Group = dict[str, Any]
Hook = Callable[..., Any]


class Options(dict[str, Any]):
    """A group of parameters with its options, by name. Traces look at who reads them (`watched`)."""

    __slots__ = ()


class _Watched(Options):
    """A group while a function is traced: options that its own code reads must be the same in later runs."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def items(self) -> Any:
        for name in self:
            self._note(name)
        return super().items()

    def values(self) -> Any:
        for name in self:
            self._note(name)
        return super().values()

    def _note(self, name: str) -> None:
        program = trace.get()
        if program is not None and program.captures:
            program.note_option(self, name, sys._getframe(2).f_globals.get("__name__"))


Options.watched = _Watched  # type: ignore[attr-defined]

_EVENTS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")


def options(scope: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, given as its `locals()`, that are the defaults of groups: all but the parameters."""
    return {name: value for name, value in scope.items() if name not in ("self", "params", "__class__")}


class Optimizer:
    """The base of all optimizers.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dictionaries: groups with a "params" entry
    and their own values for some of the options in `defaults`. A subclass defines `step`.

    >>> import lucid
    >>> class Descent(lucid.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @lucid.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.sub_(p.grad * group["lr"])
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> optimizer = Descent([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    Tensor([0.], requires_grad=True)
    """

    compiled_attributes = ("param_groups", "state", "_hooks")  # what `lucid.compile` looks at
    # Where a program is traced: whether `step` asks it for all numbers, or for rates; else rates are inputs of it.
    reads_numbers = reads_rates = False

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params must be an iterable of tensors or of dictionaries, not one tensor; put it in a list"
            )
        if isinstance(params, dict):
            raise TypeError("params must be an iterable of tensors or of dictionaries, not one dictionary")
        given = list(params)
        if not given:
            raise ValueError(
                f"{type(self).__name__} was given an empty parameter list; an iterator may have been used up before"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._hooks = {event: {} for event in _EVENTS}
        self._given: set[int] | None = set()  # while groups are added one after the other
        groups: list[Any] = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)
        self._given = None

    needs_whole_parameters = False  # whether a step looks at more than single elements
    _hooks: dict[str, dict[int, Hook]] = {}  # noqa: RUF012  # of those whose class leaves out super().__init__(): none

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_step_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient; returns the loss if a closure that computes it is given."""
        raise NotImplementedError(f"{type(self).__name__} has no step method; define step(self, closure=None)")

    def _check(self, group: Group) -> None:
        """Refuse options that make no sense; subclasses say which."""

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own, as when layers are unfrozen during training."""
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group must be a dictionary, not a {type(param_group).__name__}")
        if "params" not in param_group:
            raise ValueError(f"a parameter group needs an entry 'params'; it has {', '.join(map(repr, param_group))}")
        group = Options({**param_group, **_as_list(param_group["params"])})
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self._check_params(group)
        self._check(group)
        self.param_groups.append(group)

    def _check_params(self, group: Group) -> None:
        known = self._given
        if known is None:
            known = {id(p) for other in self.param_groups for p in other["params"]}
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer takes tensors, not {described(p)}")
            if not p.is_leaf and not group.get("differentiable"):
                raise ValueError(
                    f"a parameter of shape {p.shape} is the result of an operation (`{p.grad_fn.name()}` at "
                    f"{p.grad_fn.place}) and not a leaf; make it one with detach().requires_grad_()"
                )
            if self.needs_whole_parameters and _is_part(p):
                raise ValueError(
                    f"{type(self).__name__} looks at whole parameters, and other processes have parts of this one (its own "
                    f"part has the shape {p.shape}); take an optimizer that treats each element by itself, such as AdamW"
                )
            if id(p) in known:
                raise ValueError(
                    f"a parameter of shape {p.shape} was given twice; each parameter may be in one group, once"
                )
            known.add(id(p))
        if self.param_groups and ("param_names" in self.param_groups[0]) != ("param_names" in group):
            raise ValueError("either all parameter groups have names for their parameters or none has")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with `set_to_none=False` overwrite them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    if tracing():
                        p.grad = None
                    else:
                        p._grad = None
                elif (gradient := p.grad) is not None:  # read once: another thread may remove it
                    if gradient.requires_grad:
                        gradient = p.grad = gradient.detach()
                    gradient.zero_()

    # Saving and loading.

    def state_dict(self) -> dict[str, Any]:
        """The state by number of parameter, and the groups with numbers in place of parameters.

        The tensors in it are the optimizer's own; `copy.deepcopy` makes a snapshot.
        """
        self._run_hooks("state_dict_pre")
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        for group in groups:
            group["params"] = group.pop("params")
        state: dict[Any, Any] = {
            numbers[id(p)] if isinstance(p, Tensor) else p: entry for p, entry in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        return self._run_hooks("state_dict_post", result) or result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the parameters are matched by their numbers, and all values are copied."""
        state_dict = self._run_hooks("load_state_dict_pre", dict(state_dict)) or state_dict
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"the state has {len(saved)} parameter groups, this optimizer has {len(self.param_groups)}"
            )
        params: dict[Any, Tensor] = {}
        for number, (theirs, ours) in enumerate(zip(saved, self.param_groups, strict=True)):
            if len(theirs["params"]) != len(ours["params"]):
                raise ValueError(
                    f"group {number} has {len(theirs['params'])} parameters in the state and "
                    f"{len(ours['params'])} in this optimizer"
                )
            params.update(zip(theirs["params"], ours["params"], strict=True))
        flatten(state_dict["state"])  # raises if it contains itself, or is nested too deep to be copied
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for key, entry in state_dict["state"].items():
            owner = params.get(key)
            state[key if owner is None else owner] = _loaded(entry, owner)
        options = [{k: copy.deepcopy(v) for k, v in group.items() if k != "params"} for group in saved]
        groups = [
            Options({"params": ours["params"], **self.defaults, **theirs})
            for ours, theirs in zip(self.param_groups, options, strict=True)
        ]
        self.__setstate__({"state": state, "param_groups": groups})
        self._run_hooks("load_state_dict_post")

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_hooks", {event: {} for event in _EVENTS})
        self._given = None

    # Hooks.

    def _patch_step_function(self) -> None:
        """What optimizers around others call in PyTorch in place of `__init__`: here `step` needs no preparation."""

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other args and kwargs for it."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects the state."""
        return self._register("state_dict_pre", hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on what `state_dict` is about to return; it may return another one."""
        return self._register("state_dict_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a state is loaded; it may return another one."""
        return self._register("load_state_dict_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer)` after a state was loaded."""
        return self._register("load_state_dict_post", hook)

    def _register(self, event: str, hook: Hook) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
        if not self._hooks:
            self._hooks = {name: {} for name in _EVENTS}
        handle = RemovableHandle(self._hooks[event])
        self._hooks[event][handle.id] = hook
        return handle

    def _run_hooks(self, event: str, value: Any = None) -> Any:
        """Run the hooks of an event, each on what the one before it returned."""
        for hook in list(self._hooks.get(event, {}).values()):
            result = hook(self) if value is None else hook(self, value)
            value = value if result is None else result
        return value

    # What subclasses share.

    def _loss(self, closure: Closure | None) -> Any:
        """The value of a closure, which records gradients also inside no_grad."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _numbers_in_program(self, p: Tensor, compute: Callable[[dict[str, Any]], Sequence[float] | None]) -> list[Any]:
        """What `compute` makes of the state of a parameter, as numbers that a program which is traced reads for each run.

        None of it means that the program does not serve any more; the state is empty before the first step.
        """
        program = trace.get()
        if (id(self), id(p)) in program.ticks:
            raise NotImplementedError(f"{type(self).__name__}: a compiled function can take one step, not several")
        program.ticks[id(self), id(p)] = True
        kind = np.dtype(np.float64 if p.np_dtype == np.float64 else np.float32)
        numbers: list[Any] = program.numbers(lambda: compute(self.state.get(p, {})), kind)
        return numbers

    def _note_writes(self, storages: Iterable[Storage]) -> None:
        """Count a write to this memory, for whoever has saved what was there before."""
        writer = (f"{type(self).__name__}.step", here())
        for storage in storages:
            storage.version += 1
            storage.writer = writer

    def __repr__(self) -> str:
        groups = [
            "\n".join(
                [f"Parameter Group {number}", *(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")]
            )
            for number, group in enumerate(self.param_groups)
        ]
        return f"{type(self).__name__} (\n" + "\n\n".join(groups) + "\n)"


def _is_part(p: Tensor) -> bool:
    from lucid.distributed.parts import divided_among

    return any(group.size() > 1 for group in divided_among(p))


def _with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step method of a class with the hooks around it; a method called by way of super() has none."""

    @wraps(step)
    def call(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if tracing() and (program := trace.get()) is not None:
            if program.captures:
                with program.stepping(self):
                    return run(self, *args, **kwargs)
            program.raise_if_outside([p for group in self.param_groups for p in group["params"]], "step")
        return run(self, *args, **kwargs)

    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        hooks = self._hooks
        if not hooks or not (hooks["step_pre"] or hooks["step_post"]) or type(self).step is not call:
            return step(self, *args, **kwargs)
        for hook in list(hooks["step_pre"].values()):
            result = hook(self, args, kwargs)
            if result is not None:
                if not isinstance(result, tuple) or len(result) != 2:
                    raise RuntimeError(f"a step pre-hook must return None or (args, kwargs), not {result!r}")
                args, kwargs = result
        out = step(self, *args, **kwargs)
        for hook in list(hooks["step_post"].values()):
            hook(self, args, kwargs)
        return out

    return call


def _as_list(params: Any) -> dict[str, Any]:
    """The parameters of a group in order, and their names if they have any."""
    if isinstance(params, Tensor):
        return {"params": [params]}
    if isinstance(params, (set, frozenset)):
        raise TypeError("the parameters of a group must have an order; give a list instead of a set")
    items = list(params)
    if items and isinstance(items[0], tuple):
        return {"params": [p for _, p in items], "param_names": [name for name, _ in items]}
    return {"params": items}


def _loaded(value: Any, owner: Tensor | None, key: Any = None) -> Any:
    """A saved value for a parameter: a copy, tensors in the parameter's type except counters."""
    if isinstance(value, Tensor):
        copied = value.detach().clone()
        floats = owner is not None and owner.is_floating_point() and key != "step"
        return copied.to(owner.dtype) if floats and owner is not None and copied.is_floating_point() else copied
    if isinstance(value, Mapping):
        return {k: _loaded(v, owner, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_loaded(v, owner) for v in value)
    return copy.deepcopy(value)


def check_range(
    optimizer: Optimizer, group: Group, name: str, low: float = 0.0, high: float = math.inf, at: int | None = None
) -> None:
    """Refuse an option (or one entry of it) that is not a number from `low` up to, but without, `high`."""
    value = group[name] if at is None else group[name][at]
    label = name if at is None else f"{name}[{at}]"
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"{type(optimizer).__name__}: {label} must be one number, not a tensor of shape {value.shape}")
    if not low <= value < high and not value == high == math.inf:
        wanted = f"at least {low:g}" + ("" if high == math.inf else f" and less than {high:g}")
        raise ValueError(f"{type(optimizer).__name__}: {label} must be {wanted}, not {value}")


__all__ = ["Optimizer"]
