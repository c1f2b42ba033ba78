"""Programs of primitives: how a run of a function is written down, shown and run again."""
