"""The kernels that are loaded with the package."""

import lucid.backends.cpu.generated.elementwise  # noqa: F401  it makes kernels when they are first needed
from lucid.backends.cpu import contraction as contraction
from lucid.backends.cpu import elementwise as elementwise
from lucid.backends.cpu.generated import gathers as gathers
from lucid.backends.cpu.generated import movement as movement
from lucid.backends.cpu.generated import norms as norms
