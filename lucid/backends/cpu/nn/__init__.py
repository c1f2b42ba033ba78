"""The kernels of neural networks."""

from importlib import import_module

from lucid.native import compiled_first

compiled_first(__path__, "backends/cpu/nn")

for _name in (
    "attention",
    "convolution",
    "cross_entropy",
    "embedding",
    "grid_sampling",
    "linear",
    "losses",
    "normalization",
    "recurrent",
):
    import_module(f"lucid.backends.cpu.nn.{_name}")
for _name in ("embeddings", "windows"):
    import_module(f"lucid.backends.cpu.generated.{_name}")
