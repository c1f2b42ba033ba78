"""The paths of PyTorch's modules, as modules whose names are looked up on first use.

`PATHS` says where the names of each path come from, first what is adapted here. Whatever is found is converted: functions
that make tensors and classes of modules become those of the front door; all else is Lucid's own.
"""

import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import Any

from lucid.core.dtypes import dtype
from lucid.ops.sparse.layout import layout, named
from lucid.torch import layers
from lucid.torch.absences import WHY
from lucid.torch.accelerators import SWITCHES
from lucid.torch.element_types import giving_types, typed
from lucid.torch.layers import derived, is_derived
from lucid.torch.tensors import Plain, Typed, adopted, has_older_form, taking_older_form

ROOT = __name__.rpartition(".")[0]
_MODULES = (
    "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm lazy linear "
    "loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling"
).split()
_NN = "lucid.torch.extras lucid.nn"
_DISTRIBUTIONS = (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet distribution exp_family exponential "
    "fishersnedecor gamma geometric gumbel half_cauchy half_normal independent inverse_gamma kl kumaraswamy laplace "
    "lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
    "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical "
    "studentT transformed_distribution uniform von_mises weibull wishart"
).split()
_OPTIMIZERS = "asgd adafactor _adafactor _muon adadelta adagrad adam adamax adamw lbfgs muon nadam optimizer radam rmsprop rprop sgd sparse_adam".split()

_GIVE_TYPES = ("get_default_dtype", "promote_types", "result_type")
_HOMES_OF_TYPES = ("lucid.core.dtypes", "lucid.arguments.promotion", "lucid.api.conversion")

# A path -> the modules that have its names.
PATHS = {
    "nn": _NN,
    "nn.functional": "lucid.nn.functional lucid.torch.extras lucid.torch.root",
    "nn.init": "lucid.nn.init lucid.torch.internals",
    "nn.parameter": "lucid.nn.parameter",
    "nn.parallel": "lucid.torch.extras lucid.nn.parallel",
    "nn.parallel.data_parallel": "lucid.torch.extras",
    "nn.parallel.scatter_gather": "lucid.torch.internals",
    "nn.parallel.distributed": "lucid.nn.parallel",
    "nn.attention": "lucid.torch.extras",
    "nn.utils": "lucid.nn.utils lucid.nn.utils.rnn lucid.torch.extras",
    "nn.utils.prune": "lucid.nn.utils.prune",
    "nn.utils.fusion": "lucid.nn.utils.fusion",
    "nn.utils.stateless": "lucid.func",
    "nn.utils.rnn": "lucid.nn.utils.rnn",
    "nn.utils.clip_grad": "lucid.nn.utils",
    "nn.utils.spectral_norm": "lucid.nn.utils",
    "nn.utils.weight_norm": "lucid.nn.utils",
    "nn.utils.convert_parameters": "lucid.nn.utils",
    "nn.utils.parametrizations": "lucid.nn.utils.parametrizations",
    "nn.utils.parametrize": "lucid.nn.utils.parametrize",
    "nn.modules": _NN,
    "return_types": "lucid.torch.results",
    **{f"nn.modules.{name}": f"{_NN} lucid.torch.internals" for name in _MODULES},
    "nn.modules.utils": "lucid.torch.internals",
    "jit._script": "lucid.torch.hints",
    "optim": "lucid.optim",
    "optim.lr_scheduler": "lucid.optim.lr_scheduler",
    "optim.swa_utils": "lucid.optim.swa_utils",
    **{f"optim.{name}": "lucid.optim lucid.torch.internals" for name in _OPTIMIZERS},
    "autograd": "lucid.torch.differentiation lucid.autograd lucid.torch.extras",
    "autograd.functional": "lucid.func.of_inputs",
    "autograd.function": "lucid.autograd lucid.torch.extras",
    "autograd.graph": "lucid.autograd.graph lucid.torch.differentiation lucid.torch.extras",
    "autograd.forward_ad": "lucid.autograd.forward_ad",
    "autograd.grad_mode": "lucid.torch.differentiation lucid.autograd",
    "autograd.gradcheck": "lucid.autograd",
    "autograd.profiler": "lucid.torch.profiling",
    "autograd.variable": "lucid.torch.differentiation",
    "utils": "",
    "utils.data": "lucid.torch.loading lucid.data",
    "utils.data.dataset": "lucid.data",
    "utils.data.dataloader": "lucid.torch.loading lucid.data",
    "utils.data.sampler": "lucid.torch.loading lucid.data",
    "utils.data.distributed": "lucid.torch.loading lucid.data",
    "utils.data._utils": "",
    "utils.data._utils.collate": "lucid.data",
    "utils.hooks": "lucid.core.hooks",
    "utils._foreach_utils": "lucid.torch.internals",
    "utils.model_zoo": "lucid.torch.internals",
    "utils.checkpoint": "lucid.torch.extras",
    "cpu": "lucid.torch.processor",
    "cpu.amp": "lucid.torch.processor",
    "utils._pytree": "lucid.torch.pytrees",
    "utils.dlpack": "lucid.api.dlpack lucid.torch.extras",
    "testing": "lucid.torch.comparison",
    "func": "lucid.func lucid.torch.extras",
    "linalg": "lucid.linalg",
    "fft": "lucid.fft",
    "special": "lucid.special",
    "signal": "",
    "signal.windows": "lucid.signal.windows",
    "masked": "lucid.masked",
    "sparse": "lucid.sparse",
    "distributions": "lucid.distributions",
    "distributions.utils": "lucid.torch.internals",
    "distributions.constraints": "lucid.distributions.constraints",
    "distributions.constraint_registry": "lucid.distributions.constraint_registry",
    "distributions.transforms": "lucid.distributions.transforms",
    **{f"distributions.{name}": "lucid.distributions lucid.torch.internals" for name in _DISTRIBUTIONS},
    "amp": "lucid.torch.accelerators lucid.amp",
    "amp.autocast_mode": "lucid.torch.accelerators",
    "amp.grad_scaler": "lucid.torch.accelerators",
    "random": "lucid.api.random lucid.torch.root",
    "serialization": "lucid.torch.files lucid.torch.internals",
    "cuda": "lucid.torch.accelerators",
    "cuda.amp": "",
    "mps": "lucid.torch.accelerators",
    "xpu": "lucid.torch.accelerators",
    "backends": "lucid.torch.accelerators",
    "jit": "lucid.torch.hints",
    "jit.annotations": "typing",
    "fx": "lucid.torch.hints",
    "fx.node": "lucid.torch.hints",
    "fx.experimental": "",
    "fx.experimental.proxy_tensor": "lucid.torch.hints",
    "fx.graph_module": "lucid.torch.hints",
    "futures": "lucid.torch.hints",
    "__config__": "lucid.torch.processor",
    "nn._reduction": "lucid.torch.internals",
    "compiler": "lucid.torch.hints",
    "version": "",
    "hub": "lucid.torch.internals",
    "multiprocessing": "lucid.torch.workers",
    "overrides": "lucid.torch.internals",
    "profiler": "lucid.torch.profiling",
    "functional": "lucid.api.contractions lucid.api.shaping lucid.api.joining lucid.api.sorting lucid.api.reductions",
    "storage": "lucid.utils.storages",
    "_tensor": "lucid.torch.tensors",
    "accelerator": "lucid.torch.accelerators",
    "distributed": "lucid.distributed lucid.torch.internals",
    "distributed.distributed_c10d": "lucid.distributed",
    "distributed.nn": "lucid.distributed.nn",
    "distributed.nn.functional": "lucid.distributed.nn",
    "distributed.device_mesh": "lucid.distributed",
    "distributed.fsdp": "lucid.nn.parallel",
    "distributed.fsdp.sharded_grad_scaler": "lucid.nn.parallel",
    "distributed.optim": "lucid.optim.zero",
    "distributed.checkpoint": "lucid.checkpoints.distributed",
    "distributed.checkpoint.state_dict": "lucid.checkpoints.distributed",
    "distributed.algorithms.ddp_comm_hooks": "",
    "distributed.algorithms": "lucid.distributed.join",
    "distributed.algorithms.join": "lucid.distributed.join",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": "lucid.nn.parallel",
    "_C": "lucid.torch.internals",
    "_subclasses": "lucid.torch.internals",
    "_subclasses.fake_tensor": "lucid.torch.internals",
    "types": "lucid.torch.internals",
}
# Paths of modules whose names mean functions of the modules above them.
FUNCTIONS = frozenset(("autograd.gradcheck", "nn.utils.spectral_norm", "nn.utils.weight_norm"))
# Names that a path has under others than their own.
RENAMED = {
    "nn.Container": "lucid.nn.Module",
    "nn.CrossMapLRN2d": "lucid.nn.LocalResponseNorm",
    "nn.NLLLoss2d": "lucid.nn.NLLLoss",
    "nn.RNNBase": "lucid.nn.layers.recurrent._Layers",
    "nn.RNNCellBase": "lucid.nn.layers.recurrent._Cell",
    "nn.modules.batchnorm._BatchNorm": "lucid.nn.layers.normalization._BatchNorm",
    "nn.modules.conv._ConvNd": "lucid.nn.layers.convolution._WithKernel",
    "nn.modules.batchnorm._NormBase": "lucid.nn.layers.normalization._WithStatistics",
    "nn.modules.conv._ConvTransposeNd": "lucid.nn.layers.convolution._ConvTranspose",
    "nn.modules.dropout._DropoutNd": "lucid.nn.layers.dropout._Dropout",
    "nn.modules.instancenorm._InstanceNorm": "lucid.nn.layers.normalization._InstanceNorm",
    "nn.modules.linear.NonDynamicallyQuantizableLinear": "lucid.nn.Linear",
    "nn.modules.pooling._AvgPoolNd": "lucid.nn.layers.pooling._AvgPool",
    "nn.modules.pooling._MaxPoolNd": "lucid.nn.layers.pooling._MaxPool",
    "nn.modules.rnn.RNNBase": "lucid.nn.layers.recurrent._Layers",
    "nn.init._no_grad_normal_": "lucid.nn.init.normal_",
    "nn.init._no_grad_trunc_normal_": "lucid.nn.init.trunc_normal_",
    "nn.init._no_grad_uniform_": "lucid.nn.init.uniform_",
    "nn.parameter.UninitializedTensorMixin": "lucid.nn.parameter.Waiting",
    "nn.parameter.is_lazy": "lucid.nn.parameter.is_lazy",
    "distributions.transforms._InverseTransform": "lucid.distributions.transform._InverseTransform",
    "func.rearrange": "lucid.einops.rearrange",
    "autograd.function.InplaceFunction": "lucid.autograd.Function",
    "optim.lr_scheduler._LRScheduler": "lucid.optim.lr_scheduler.LRScheduler",
    "cuda.amp.custom_fwd": "lucid.amp.custom_fwd",
    "cuda.amp.custom_bwd": "lucid.amp.custom_bwd",
    "cuda.amp.autocast": "lucid.torch.accelerators.cuda_autocast",
    "cuda.amp.GradScaler": "lucid.torch.accelerators.cuda_scaler",
    "utils.dlpack.to_dlpack": "lucid.api.dlpack.dlpack",
    "version.cuda": None,
    "version.hip": None,
    **{f"nn.functional.{name}": f"lucid.torch.layers.{name}" for name in layers.FUNCTIONS},
}

# The modules whose functions need no tensor to make one, and single functions of other modules.
MAKERS = frozenset(
    "lucid.api.creation lucid.api.dlpack lucid.api.random lucid.signal.windows lucid.fft.frequencies "
    "lucid.nn.utils.rnn lucid.nn.utils.clip_grad lucid.sparse.creation".split()
)
SINGLE = frozenset("empty_permuted empty_strided tril_indices triu_indices".split())
# What PyTorch's functions take beside Lucid's arguments: there is one layout, and no memory to be pinned.
_HINTS = ("layout", "memory_format", "pin_memory")


def makes(value: Any) -> bool:
    """Whether something is a function that makes tensors of the caller's numbers alone."""
    return (
        callable(value)
        and not isinstance(value, type)
        and (getattr(value, "__module__", None) in MAKERS or getattr(value, "__name__", None) in SINGLE)
    )


@cache
def making(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, such that new tensors are those of the front door; it takes PyTorch's hints and needs none."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        for hint in _HINTS:
            kwargs.pop(hint, None)
        if isinstance(kwargs.get("dtype"), Typed):
            kwargs["dtype"] = kwargs["dtype"].dtype
        made = function(*args, **kwargs)
        # What was given and is handed back keeps its class.
        return made if type(made) is Plain and args and made is args[0] else adopted(made)

    return make


def converted(value: Any) -> Any:
    """A value of Lucid as the front door has it."""
    if is_derived(value):
        return derived(value)
    if type(value) is dtype:
        return typed(value)
    if isinstance(value, layout):
        return named(value.name, "torch")
    if getattr(value, "__name__", None) in _GIVE_TYPES and value.__module__ in _HOMES_OF_TYPES:
        return giving_types(value)
    if has_older_form(value):
        return taking_older_form(value)
    return making(value) if makes(value) else value


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that is not there, with the reason where there is one to give."""
    why = WHY.get(name)
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else ""))


def _looked_up(path: str, sources: list[str]) -> Callable[[str], Any]:
    """How a module of the front door finds a name."""

    def find(name: str) -> Any:
        full = f"{path}.{name}"
        if (full in PATHS and full not in FUNCTIONS) or full in SWITCHES:
            return sys.modules[f"{ROOT}.{full}"]
        if full in RENAMED:
            home = RENAMED[full]
            module, _, own = (home or "").rpartition(".")
            value = None if home is None else converted(getattr(import_module(module), own))
        elif name == "__all__":  # for `from torch.nn import *`
            return dir(sys.modules[f"{ROOT}.{path}"])
        elif name.startswith("__"):
            raise no_attribute(f"torch.{path}", name)
        else:
            found = (import_module(s) for s in sources)
            source = next((s for s in found if hasattr(s, name)), None)
            if source is None or isinstance(getattr(source, name), ModuleType):
                raise no_attribute(f"torch.{path}", name)
            value = converted(getattr(source, name))
        setattr(sys.modules[f"{ROOT}.{path}"], name, value)
        return value

    return find


def _listed(path: str, sources: list[str]) -> Callable[[], list[str]]:
    def names() -> list[str]:
        known = [(s, n) for s in map(import_module, sources) for n in getattr(s, "__all__", ())]
        own = (n for s, n in known if not isinstance(getattr(s, n), ModuleType))
        below = (p.rpartition(".")[2] for p in (*PATHS, *RENAMED) if p.rpartition(".")[0] == path)
        return sorted({*own, *below})

    return names


def make_modules() -> None:
    """Make a module for each path, empty until its names are used."""
    for path, words in PATHS.items():
        module: Any = ModuleType(f"{ROOT}.{path}", f"PyTorch's path torch.{path}.")
        sources = words.split()
        module.__getattr__, module.__dir__ = _looked_up(path, sources), _listed(path, sources)
        module.__path__ = []
        sys.modules[module.__name__] = module
    sys.modules.update({f"{ROOT}.{name}": switch for name, switch in SWITCHES.items()})
