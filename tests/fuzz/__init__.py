"""Random programs of tensors, run in every way there is and compared: `python -m fuzz`, or `make fuzz`.

`program` says what a program is; `pool`, `structure`, `templates` and `rows` make them; `subject`, `modes`, `batches` and
`graphs` run them, and `parity` in PyTorch; `judge` compares, `shrink` makes what fails small, `workers` runs many.
"""
