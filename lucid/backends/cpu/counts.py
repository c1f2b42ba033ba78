"""Counts by inverse transform, in threads once compiled (counts.pyx).

Generation does not reach loops that end where a sum does: each element has as many steps as its count has units.
"""

from lucid.backends.numpy.random import added_up as added_up
