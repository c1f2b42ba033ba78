"""What the programs share: numbers that do not depend on the library."""

import numpy as np


def data(torch, *shape, seed=0, scale=1.0):
    """Normal numbers, the same under every library."""
    return torch.tensor(np.random.RandomState(seed).randn(*shape) * scale, dtype=torch.float64)


def labels(torch, n, classes, seed=0):
    return torch.from_numpy(np.random.RandomState(seed).randint(0, classes, n)).long()


def initialised(torch, module, seed=0):
    """The module in double precision with parameters that do not depend on the library."""
    module = module.double()
    random = np.random.RandomState(seed)
    with torch.no_grad():
        for _, p in sorted(module.named_parameters()):
            p.copy_(torch.from_numpy(random.uniform(-0.3, 0.3, tuple(p.shape))))
    return module


def values(module):
    return {name: p.detach().cpu().numpy().copy() for name, p in module.named_parameters()}
