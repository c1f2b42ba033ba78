"""Layers as modules: each file holds one family."""
