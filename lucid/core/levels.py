"""The numbers of transforms: each application of vmap or jvp takes the next, so inner ones are higher."""

from itertools import count

new_level = count(1).__next__
