"""The whole table: the rows of every family of operations."""

import samples
import samples_nn_conv
import samples_nn_norms
import samples_nn_softmax

ROWS = [*samples.ROWS, *samples_nn_softmax.ROWS, *samples_nn_norms.ROWS, *samples_nn_conv.ROWS]
