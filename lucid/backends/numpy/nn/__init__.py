"""The kernels of neural networks; those of fused operations are their composites."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/numpy/nn")

for _name in (
    "convolution",
    "cross_entropy",
    "ctc",
    "embedding",
    "linear",
    "losses",
    "padding",
    "pooling",
    "resampling",
):
    import_module(f"lucid.backends.numpy.nn.{_name}")
