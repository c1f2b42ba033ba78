"""Sparse tensors: the kind of tensor, its products and linear systems, and what other operations make of it."""
