"""Jacobians and Hessians that are mostly zero: where their entries are, and how to measure them with few products."""

from lucid.func.sparse.jacobians import Sparsity, hessian_pattern, jacobian_pattern, sparse_hessian, sparse_jacobian

__all__ = ["Sparsity", "hessian_pattern", "jacobian_pattern", "sparse_hessian", "sparse_jacobian"]
