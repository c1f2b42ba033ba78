"""How operations are computed: for each kind of memory, its kernels."""
