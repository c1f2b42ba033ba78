"""Whether tensors can live on a CUDA device."""


def is_available(verbose: bool = True) -> bool:
    """Whether a tensor can be made on a CUDA device: no. With `verbose`, also say so.

    >>> import sorix
    >>> sorix.cuda.is_available()
    CUDA is not available: Lucid computes on the CPU
    False
    """
    if verbose:
        print("CUDA is not available: Lucid computes on the CPU")
    return False


__all__ = ["is_available"]
