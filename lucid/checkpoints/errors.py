"""What is raised when a file is not a checkpoint that can be read."""


class CheckpointError(ValueError):
    """A file is damaged, or is no checkpoint.

    >>> import lucid.checkpoints
    >>> issubclass(lucid.checkpoints.CheckpointError, ValueError)
    True
    """
