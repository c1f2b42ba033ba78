"""How the elements of a tensor are stored."""


class layout:
    """How the elements of a tensor are stored: all of them by strides, or some of them with their positions.

    >>> import lucid
    >>> lucid.eye(2).layout, lucid.eye(2).to_sparse().layout
    (lucid.strided, lucid.sparse_coo)
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"lucid.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
