"""Kernels that are generated from declarations: codegen writes loops, and `launch` hands them memory."""
