"""Linear algebra: norms, factorizations, solvers and eigenvalues, all with derivatives."""
