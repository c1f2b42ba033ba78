"""Counts by inverse transform, and choices by cumulative weights, in threads once compiled (counts.pyx).

Generation does not reach loops that end where a sum does, and searches: each element has as many steps as it takes.
"""

from lucid.backends.numpy.random import added_up as added_up
from lucid.backends.numpy.random import extent as extent
from lucid.backends.numpy.random import picked as picked
