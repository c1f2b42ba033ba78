"""The path `sorix.cupy.cupy`."""
