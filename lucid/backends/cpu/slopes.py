"""Products that derivatives of tanh and of the logistic function consist of: NumPy's form of them.

Compiled (slopes.pyx), each is one pass over memory.

To be replaced by generated code.
"""

from lucid.backends.numpy.slopes import sigmoid_bend as sigmoid_bend
from lucid.backends.numpy.slopes import sigmoid_slope as sigmoid_slope
from lucid.backends.numpy.slopes import tanh_bend as tanh_bend
from lucid.backends.numpy.slopes import tanh_slope as tanh_slope
