"""The public functions, by theme: they read arguments, promote types and call primitives."""
