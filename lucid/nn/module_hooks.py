"""Hooks on modules: what is called before and after `forward`, and when gradients pass a module."""

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import lucid
from lucid import Tensor
from lucid.autograd import Function
from lucid.core.hooks import RemovableHandle

Hook = Callable[..., Any]


def add_hook(hooks: dict[int, Any], hook: Any, prepend: bool = False, handle_type: type[Any] = RemovableHandle) -> Any:
    """Put a hook into a table, last or first; gives the handle that removes it."""
    function = hook[0] if isinstance(hook, tuple) else hook
    if not callable(function):
        raise TypeError(f"a hook must be callable, not {type(function).__name__}")
    handle = handle_type(hooks)
    while handle.id in hooks:  # of a module that was unpickled
        handle = handle_type(hooks)
    later = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[handle.id] = hook
    hooks.update(later)
    return handle


class ModuleHooks:
    """All that is hung on one module's calls, each kind in the order in which it runs."""

    def __init__(self) -> None:
        self.forward_pre: dict[int, tuple[Hook, bool]] = {}  # hook, with_kwargs
        self.forward: dict[int, tuple[Hook, bool, bool]] = {}  # hook, with_kwargs, always_call
        self.backward: dict[int, Hook] = {}
        self.backward_pre: dict[int, Hook] = {}


class ModuleHandle(RemovableHandle):
    """Removes a hook from a module, and with the last one what makes the module's calls slower."""

    module: Any = None

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        super().remove()
        module = None if self.module is None else self.module()
        own = None if module is None else vars(module).get("_hooks")
        if module is not None and own is not None and not any(vars(own).values()):
            object.__delattr__(module, "_hooks")


class Hooked:
    """The part of `Module` that deals with hooks on its calls."""

    # A module's own hooks are an attribute of the module; this one, of the class, is set while there are hooks on all.
    _hooks: ModuleHooks | None = None

    def _own_hooks(self) -> ModuleHooks | None:
        found: ModuleHooks | None = vars(self).get("_hooks")
        return found

    def _hook_tables(self) -> ModuleHooks:
        own = self._own_hooks()
        if own is None:
            own = self._hooks = ModuleHooks()
        return own

    def _add_hook(self, kind: str, hook: Any, prepend: bool) -> "ModuleHandle":
        handle = add_hook(getattr(self._hook_tables(), kind), hook, prepend, ModuleHandle)
        handle.module = weakref.ref(self)
        return handle

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each forward; what it returns, if not None, takes the place of `args`.

        With `with_kwargs=True` it is `hook(module, args, kwargs)`, which may return a pair of both.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> class Double(Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> double = Double()
        >>> handle = double.register_forward_pre_hook(lambda module, args: args[0] + 1)
        >>> double(3)
        8
        """
        return self._add_hook("forward_pre", (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each forward; what it returns, if not None, becomes the output.

        With `with_kwargs=True` it is `hook(module, args, kwargs, output)`. With `always_call=True` it is also called,
        with None for the output if there is none, when the forward or another hook raises.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> class Double(Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> double = Double()
        >>> handle = double.register_forward_hook(lambda module, args, output: print(args, output))
        >>> _ = double(3)
        (3,) 6
        """
        return self._add_hook("forward", (hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional arguments are known.

        Both are tuples, with None for what has no gradient; a tuple that it returns takes the place of `grad_input`.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> class Double(Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> double = Double()
        >>> handle = double.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input))
        >>> double(lucid.tensor(1.0, requires_grad=True)).backward()
        (Tensor(2.),)
        """
        return self._add_hook("backward", hook, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the gradients go through the module; it may return others.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> class Double(Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> double = Double()
        >>> handle = double.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
        >>> x = lucid.tensor(1.0, requires_grad=True)
        >>> double(x).backward()
        >>> x.grad
        Tensor(20.)
        """
        return self._add_hook("backward_pre", hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """The older name of `register_full_backward_hook`."""
        return self.register_full_backward_hook(hook)


_everywhere = ModuleHooks()  # the hooks on all modules


class EverywhereHandle(RemovableHandle):
    """Removes a hook from all modules, and with the last one what makes all calls slower."""

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        super().remove()
        if not any(vars(_everywhere).values()):
            Hooked._hooks = None


def _hook_everywhere(kind: str, hook: Any) -> RemovableHandle:
    handle: RemovableHandle = add_hook(getattr(_everywhere, kind), hook, handle_type=EverywhereHandle)
    Hooked._hooks = _everywhere
    return handle


def register_module_forward_pre_hook(hook: Hook, *, with_kwargs: bool = False) -> RemovableHandle:
    """Call `hook(module, args)` before each forward of every module, before the hooks of the module itself.

    >>> import lucid
    >>> from lucid.nn import Linear, Sequential, register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(type(module).__name__, args[0].shape)):
    ...     _ = Sequential(Linear(3, 2), Linear(2, 1))(lucid.ones(5, 3))
    Sequential (5, 3)
    Linear (5, 3)
    Linear (5, 2)
    """
    return _hook_everywhere("forward_pre", (hook, with_kwargs))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after each forward of every module, before the hooks of the module itself.

    >>> import lucid
    >>> from lucid.nn import Linear, register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, output: output * 0 + 1):
    ...     Linear(3, 2)(lucid.ones(3)).detach()
    Tensor([1., 1.])
    """
    return _hook_everywhere("forward", (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before gradients go through any module; it may return others.

    >>> import lucid
    >>> from lucid.nn import ReLU, register_module_full_backward_pre_hook
    >>> x = lucid.ones(2, requires_grad=True)
    >>> with register_module_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,)):
    ...     ReLU()(x).sum().backward()
    >>> x.grad
    Tensor([3., 3.])
    """
    return _hook_everywhere("backward_pre", hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when gradients have gone through any module.

    >>> import lucid
    >>> from lucid.nn import ReLU, register_module_full_backward_hook
    >>> x = lucid.ones(2, requires_grad=True)
    >>> with register_module_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input)):
    ...     ReLU()(x).sum().backward()
    (Tensor([1., 1.]),)
    """
    return _hook_everywhere("backward", hook)


def _all_hooks(module: Any) -> ModuleHooks:
    """The hooks on all modules and those of this one, in the order in which they run."""
    own = module._own_hooks()
    if own is None or not any(vars(_everywhere).values()):
        return _everywhere if own is None else own
    both = ModuleHooks()
    for kind, table in vars(both).items():
        table.update((("everywhere", key), hook) for key, hook in getattr(_everywhere, kind).items())
        table.update(getattr(own, kind))
    return both


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a module's forward and whatever is hung on it."""
    hooks = _all_hooks(module)
    done: set[Any] = set()
    state: dict[str, Any] = {"args": args, "kwargs": kwargs, "result": None}
    try:
        return _run(module, hooks, state, done)
    except Exception:
        for key, (hook, with_kwargs, always_call) in list(hooks.forward.items()):
            if always_call and key not in done:
                _call_after_error(module, hook, with_kwargs, state)
        raise


def _run(module: Any, hooks: ModuleHooks, state: dict[str, Any], done: set[Any]) -> Any:
    for hook, with_kwargs in list(hooks.forward_pre.values()):
        _run_pre_hook(module, hook, with_kwargs, state)
    watch = None
    if (hooks.backward or hooks.backward_pre) and lucid.is_grad_enabled():
        watch = _Watch(module, list(hooks.backward.values()), list(hooks.backward_pre.values()))
        state["args"] = watch.inputs(state["args"])
    state["result"] = module.forward(*state["args"], **state["kwargs"])
    for key, (hook, with_kwargs, _) in list(hooks.forward.items()):
        done.add(key)
        _run_forward_hook(module, hook, with_kwargs, state)
    return state["result"] if watch is None else watch.outputs(state["result"])


def _run_pre_hook(module: Any, hook: Hook, with_kwargs: bool, state: dict[str, Any]) -> None:
    if not with_kwargs:
        new = hook(module, state["args"])
        if new is not None:
            state["args"] = new if isinstance(new, tuple) else (new,)
        return
    new = hook(module, state["args"], state["kwargs"])
    if new is None:
        return
    if not (isinstance(new, tuple) and len(new) == 2 and isinstance(new[1], dict)):
        raise RuntimeError(
            f"a forward pre-hook with kwargs must return None or a pair of arguments and keyword arguments, not {new!r}"
        )
    state["args"], state["kwargs"] = new if isinstance(new[0], tuple) else ((new[0],), new[1])


def _run_forward_hook(module: Any, hook: Hook, with_kwargs: bool, state: dict[str, Any]) -> None:
    given = (state["args"], state["kwargs"]) if with_kwargs else (state["args"],)
    new = hook(module, *given, state["result"])
    if new is not None:
        state["result"] = new


def _call_after_error(module: Any, hook: Hook, with_kwargs: bool, state: dict[str, Any]) -> None:
    """A hook that fails too must not hide the error that is on its way."""
    try:
        _run_forward_hook(module, hook, with_kwargs, state)
    except Exception as error:
        warnings.warn(f"a forward hook with always_call=True raised {error!r} after another error", stacklevel=4)


class _Watch:
    """Sees the gradients of one call of a module: first those of its outputs, then those of its inputs."""

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.places: list[int] = []  # arguments that a gradient comes back for
        self.count = 0
        self.grad_output: Any = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, connected so that their gradients are seen."""
        self.count = len(args)
        new, self.places = _passed(args, self._on_inputs)
        return tuple(new)

    def outputs(self, result: Any) -> Any:
        """The result, connected so that its gradients are seen."""
        if isinstance(result, Tensor):
            return _passed([result], self._on_outputs)[0][0]
        if isinstance(result, dict):
            return type(result)(zip(result, self._outputs(list(result.values())), strict=True))
        if isinstance(result, (tuple, list)):
            new = self._outputs(result)
            return type(result)(*new) if hasattr(result, "_fields") else type(result)(new)
        return result

    def _outputs(self, results: Any) -> list[Any]:
        return _passed(results, self._on_outputs)[0]

    def _on_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            grads = _replaced(grads, hook(self.module, grads), "backward pre-hook")
        self.grad_output = grads
        if not self.places:  # no input needs a gradient, so none will be seen
            self._on_inputs((None,) * self.count)
        return grads

    def _on_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            grads = _replaced(grads, hook(self.module, grads, self.grad_output), "backward hook")
        self.grad_output = None
        return grads


def _passed(values: Any, see: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> tuple[list[Any], list[int]]:
    """The values with those that require grad led through `see` on the way back, and where these stand."""
    new = list(values)
    places = [i for i, v in enumerate(new) if isinstance(v, Tensor) and v.requires_grad]
    if places:
        passed = _Pass.apply(see, places, len(new), *[new[i] for i in places])
        for i, value in zip(places, passed, strict=True):
            new[i] = value
    return new, places


class _Pass(Function):
    """The identity; on the way back, `see` gets the gradients (None for values that have none) and may change them."""

    @staticmethod
    def forward(ctx: Any, see: Any, places: list[int], count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.see, ctx.places, ctx.count = see, places, count
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        all_grads = [None] * ctx.count
        for i, gradient in zip(ctx.places, grads, strict=True):
            all_grads[i] = gradient
        seen = ctx.see(tuple(all_grads))
        return (None, None, None, *[seen[i] for i in ctx.places])


def _replaced(grads: tuple[Any, ...], new: Any, what: str) -> tuple[Any, ...]:
    """What a hook made of the gradients, checked."""
    if new is None:
        return grads
    new = new if isinstance(new, tuple) else (new,)
    if len(new) != len(grads):
        raise RuntimeError(f"a {what} returned {len(new)} gradients where there are {len(grads)}")
    for i, (gradient, old) in enumerate(zip(new, grads, strict=True)):
        if gradient is not None and old is None:
            raise RuntimeError(f"a {what} returned a gradient at place {i}, where there is none")
    return new


__all__ = [
    "RemovableHandle",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
]  # fmt: skip
