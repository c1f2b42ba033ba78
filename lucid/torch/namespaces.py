"""The paths of PyTorch's modules, as modules whose names are looked up on first use.

`PATHS` says where the names of each path come from, first what is adapted here. Whatever is found is converted: functions
that make tensors and classes of modules become those of the front door; all else is Lucid's own.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from lucid.torch.layers import derived, is_module
from lucid.torch.making import makes, making

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
_OPTIMIZERS = "adadelta adagrad adam adamax adamw lbfgs muon nadam optimizer radam rmsprop rprop sgd".split()

# A path -> the modules that have its names.
PATHS = {
    "nn": _NN,
    "nn.functional": "lucid.nn.functional",
    "nn.init": "lucid.nn.init",
    "nn.parameter": "lucid.nn.parameter",
    "nn.parallel": "lucid.torch.extras",
    "nn.attention": "lucid.torch.extras",
    "nn.utils": "lucid.nn.utils lucid.nn.utils.rnn",
    "nn.utils.rnn": "lucid.nn.utils.rnn",
    "nn.utils.clip_grad": "lucid.nn.utils",
    "nn.utils.convert_parameters": "lucid.nn.utils",
    "nn.utils.parametrizations": "lucid.nn.utils.parametrizations",
    "nn.utils.parametrize": "lucid.nn.utils.parametrize",
    "nn.modules": _NN,
    **{f"nn.modules.{name}": _NN for name in _MODULES},
    "optim": "lucid.optim",
    "optim.lr_scheduler": "lucid.optim.lr_scheduler",
    "optim.swa_utils": "lucid.optim.swa_utils",
    **{f"optim.{name}": "lucid.optim" for name in _OPTIMIZERS},
    "autograd": "lucid.torch.differentiation lucid.autograd",
    "autograd.functional": "lucid.torch.derivatives",
    "autograd.function": "lucid.autograd",
    "autograd.graph": "lucid.autograd.graph",
    "autograd.forward_ad": "lucid.autograd.forward_ad",
    "autograd.grad_mode": "lucid.autograd",
    "autograd.gradcheck": "lucid.autograd",
    "autograd.variable": "lucid.torch.differentiation",
    "utils": "",
    "utils.data": "lucid.torch.loading lucid.data",
    "utils.data.dataset": "lucid.data",
    "utils.data.dataloader": "lucid.torch.loading lucid.data",
    "utils.data.sampler": "lucid.torch.loading lucid.data",
    "utils.checkpoint": "lucid.torch.extras",
    "utils._pytree": "lucid.torch.pytrees",
    "utils.dlpack": "lucid.api.dlpack",
    "testing": "lucid.torch.comparison",
    "func": "lucid.func",
    "linalg": "lucid.linalg",
    "fft": "lucid.fft",
    "special": "lucid.special",
    "signal": "",
    "signal.windows": "lucid.signal.windows",
    "masked": "lucid.masked",
    "distributions": "lucid.distributions",
    "distributions.constraints": "lucid.distributions.constraints",
    "distributions.constraint_registry": "lucid.distributions.constraint_registry",
    "distributions.transforms": "lucid.distributions.transforms",
    **{f"distributions.{name}": "lucid.distributions" for name in _DISTRIBUTIONS},
    "amp": "lucid.torch.accelerators lucid.amp",
    "amp.autocast_mode": "lucid.torch.accelerators",
    "amp.grad_scaler": "lucid.torch.accelerators",
    "random": "lucid.api.random",
    "serialization": "lucid.torch.files",
    "cuda": "lucid.torch.accelerators",
    "cuda.amp": "",
    "mps": "lucid.torch.accelerators",
    "xpu": "lucid.torch.accelerators",
    "backends": "lucid.torch.accelerators",
    "jit": "lucid.torch.hints",
    "compiler": "lucid.torch.hints",
    "version": "",
    "types": "",
}
_FORMER = (
    "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse"
).split()  # names of functions that write in place, from before such names ended in _
# Names that a path has under others than their own.
RENAMED = {
    **{f"nn.init.{name}": f"lucid.nn.init.{name}_" for name in _FORMER},
    "nn.utils.clip_grad_norm": "lucid.nn.utils.clip_grad_norm_",
    "cuda.amp.autocast": "lucid.torch.accelerators.cuda_autocast",
    "cuda.amp.GradScaler": "lucid.torch.accelerators.cuda_scaler",
    "utils.dlpack.to_dlpack": "lucid.api.dlpack.dlpack",
    "version.cuda": None,
    "version.hip": None,
}

# Why a name that programs ask for is not there.
REASONS = {
    "distributed": "Lucid trains in one process",
    "multiprocessing": "use Python's multiprocessing; tensors are copied between processes",
    "onnx": "models are not exported",
    "quantization": "there are no quantized tensors",
    "ao": "there are no quantized tensors",
    "sparse": "there are no sparse tensors; lucid.func.sparse_jacobian has sparse derivatives",
    "profiler": "use cProfile, or lucid.kernels to see generated code",
    "fx": "lucid.func.make_graph gives the program of a function",
    "hub": "nothing is downloaded",
}


def converted(value: Any) -> Any:
    """A value of Lucid as the front door has it."""
    if is_module(value):
        return derived(value)
    return making(value) if makes(value) else value


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that is not there, with the reason where there is one to give."""
    why = REASONS.get(name)
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else ""))


def _looked_up(path: str, sources: list[str]) -> Callable[[str], Any]:
    """How a module of the front door finds a name."""

    def find(name: str) -> Any:
        full = f"{path}.{name}"
        if full in PATHS:
            return sys.modules[f"{ROOT}.{full}"]
        if full in RENAMED:
            home = RENAMED[full]
            module, _, own = (home or "").rpartition(".")
            value = None if home is None else converted(getattr(import_module(module), own))
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
