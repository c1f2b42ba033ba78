"""The kernels that are loaded with the package."""

from lucid.backends.cpu import contraction as contraction
from lucid.backends.cpu import elementwise as elementwise
from lucid.backends.cpu import threads as threads
from lucid.backends.cpu.generated import draws as draws
from lucid.backends.cpu.generated import gathers as gathers
from lucid.backends.cpu.generated import movement as movement
from lucid.backends.cpu.generated import norms as norms
from lucid.backends.cpu.generated import quantiles as quantiles
from lucid.backends.cpu.generated import rules as rules
from lucid.backends.cpu.generated import searches as searches
