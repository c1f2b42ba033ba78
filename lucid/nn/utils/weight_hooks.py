"""Weight and spectral normalization by forward pre-hooks: the older way, whose names stand in saved states."""

from abc import ABC, abstractmethod
from typing import Any

import lucid
from lucid import Tensor
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.nn.registry import PARAMETER
from lucid.nn.utils import weight_norms

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _WeightHook(ABC):
    """Computes an attribute of a module from parameters of other names before each forward."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def weight(self, module: Module) -> Tensor:
        """What the attribute becomes."""

    @abstractmethod
    def parts(self) -> list[str]:
        """The names of what it is computed from."""

    def __call__(self, module: Module, args: Any) -> None:
        setattr(module, self.name, self.weight(module))

    def attach(self, module: Module) -> None:
        setattr(module, self.name, self.weight(module))
        module.register_forward_pre_hook(self)

    def detach(self, module: Module) -> None:
        """Put the present weight back as a parameter."""
        with lucid.no_grad():
            value = self.weight(module).detach().clone()
        for part in self.parts():
            delattr(module, part)
        delattr(module, self.name)
        module.register_parameter(self.name, Parameter(value))


def _take_parameter(module: Module, name: str, hook: type[_WeightHook]) -> Parameter:
    """The parameter that a hook is to replace."""
    if _find(module, name, hook) is not None:
        raise RuntimeError(f"{name!r} of this {type(module).__name__} is normalized already")
    parameter = getattr(module, name, None)
    if module._kinds.get(name) != PARAMETER or parameter is None:
        raise ValueError(f"{type(module).__name__} has no parameter {name!r} to normalize")
    return parameter


def _find(module: Module, name: str, hook: type[_WeightHook]) -> tuple[int, _WeightHook] | None:
    tables = module._own_hooks()
    for key, (found, _) in tables.forward_pre.items() if tables is not None else ():
        if isinstance(found, hook) and found.name == name:
            return key, found
    return None


def _remove(module: Module, name: str, hook: type[_WeightHook], what: str) -> Module:
    found = _find(module, name, hook)
    if found is None:
        raise ValueError(f"{what} of {name!r} was not found in this {type(module).__name__}")
    key, normalizer = found
    normalizer.detach(module)
    module._hook_tables().forward_pre.pop(key)
    return module


class WeightNorm(_WeightHook):
    """The hook of `weight_norm`."""

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def parts(self) -> list[str]:
        return [f"{self.name}_g", f"{self.name}_v"]

    def weight(self, module: Module) -> Tensor:
        g, v = (getattr(module, part) for part in self.parts())
        return weight_norms.weight_from(v, g, self.dim)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a parameter by its length `<name>_g` and its direction `<name>_v`: w = g · v / ‖v‖.

    `parametrizations.weight_norm` does the same and keeps the weight up to date whenever it is read.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import weight_norm
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.tensor([[3.0, 4.0]]))
    >>> weight_norm(layer).weight_g
    Parameter containing:
    Tensor([[5.]], requires_grad=True)
    """
    weight = _take_parameter(module, name, WeightNorm)
    hook = WeightNorm(name, dim)
    with lucid.no_grad():
        g = weight_norms.norm_except(weight, dim)
    delattr(module, name)
    for part, value in zip(hook.parts(), (g, weight.data), strict=True):
        module.register_parameter(part, Parameter(value))
    hook.attach(module)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`: the present weight becomes a parameter again.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import remove_weight_norm, weight_norm
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.tensor([[3.0, 4.0]]))
    >>> [name for name, _ in remove_weight_norm(weight_norm(layer)).named_parameters()]
    ['weight']
    """
    return _remove(module, name, WeightNorm, "weight_norm")


class SpectralNorm(_WeightHook):
    """The hook of `spectral_norm`."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        weight_norms.raise_if_not_positive(n_power_iterations)
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def parts(self) -> list[str]:
        return [f"{self.name}_{part}" for part in ("orig", "u", "v")]

    def weight(self, module: Module, iterate: bool = False) -> Tensor:
        weight, u, v = (getattr(module, part) for part in self.parts())
        matrix = weight_norms.as_matrix(weight, self.dim)
        if iterate:
            # The vectors are those of the transposed matrix in the other order: v comes first, as in PyTorch, so that
            # training goes on from a saved state by the same steps.
            weight_norms.power_iterations(matrix.detach().T, v, u, self.n_power_iterations, self.eps)
        return weight / weight_norms.largest_singular_value(matrix, u, v)

    def __call__(self, module: Module, args: Any) -> None:
        setattr(module, self.name, self.weight(module, iterate=module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = weight_norms.EPSILON,
    dim: int | None = None,
) -> Module:
    """Divide a weight, kept as `<name>_orig`, by its largest singular value, estimated in each training forward.

    `parametrizations.spectral_norm` does the same and keeps the weight up to date whenever it is read.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import spectral_norm
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.eye(2))
    >>> sorted(spectral_norm(layer).state_dict())
    ['weight_orig', 'weight_u', 'weight_v']
    """
    weight = _take_parameter(module, name, SpectralNorm)
    chosen = weight_norms.default_dim(module) if dim is None else dim
    hook = SpectralNorm(name, n_power_iterations, chosen, eps)
    matrix = weight_norms.as_matrix(weight.detach(), chosen)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, vector in zip("uv", weight_norms.first_vectors(matrix, eps), strict=True):
        module.register_buffer(f"{name}_{part}", vector)
    hook.attach(module)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`: the present weight becomes a parameter again.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> from lucid.nn.utils import remove_spectral_norm, spectral_norm
    >>> layer = Module()
    >>> layer.weight = Parameter(lucid.eye(2))
    >>> [name for name, _ in remove_spectral_norm(spectral_norm(layer)).named_parameters()]
    ['weight']
    """
    return _remove(module, name, SpectralNorm, "spectral_norm")
