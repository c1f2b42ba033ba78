"""The operations of neural networks: activations, convolution, attention, normalisation, losses."""

from lucid.native import compiled_first

compiled_first(__path__, "ops/nn")
