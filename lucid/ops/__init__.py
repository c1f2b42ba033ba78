"""The mathematics: every operation, one file for each category."""

from lucid.native import compiled_first

compiled_first(__path__, "ops")

# Other files use these primitives by name.
from lucid.ops import contraction as contraction
from lucid.ops import counting as counting
from lucid.ops import indexing as indexing
from lucid.ops import norms as norms
from lucid.ops import random as random
from lucid.ops import reductions as reductions
from lucid.ops import scatter as scatter
from lucid.ops import sorting as sorting
from lucid.ops import strides as strides
from lucid.ops import views as views
