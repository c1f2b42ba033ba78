"""Random programs of tensors, run in every way there is and compared: `python -m fuzz`, or `make fuzz`.

`program` says what a program is, `pool`, `structure`, `templates` and `rows` make them, `subject` and `modes` run them,
`parity` runs them in PyTorch, `judge` compares, `shrink` makes a failing program small, `workers` runs many.
"""
