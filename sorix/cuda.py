"""Whether tensors can live on a CUDA device here."""

import lucid


def is_available(verbose: bool = False) -> bool:
    """Whether a tensor can be made on a CUDA device; with `verbose`, also print why not.

    >>> import sorix
    >>> isinstance(sorix.cuda.is_available(), bool)
    True
    """
    try:
        lucid.zeros(1, device="cuda")
    except (ImportError, RuntimeError, ValueError) as reason:
        if verbose:
            print(f"CUDA is not available: {reason}")
        return False
    return True


__all__ = ["is_available"]
