"""Programs as users of PyTorch write them, each a function of the namespace `torch`."""
