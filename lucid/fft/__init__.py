"""Discrete Fourier transforms, with derivatives."""
