"""Special functions, with derivatives."""
