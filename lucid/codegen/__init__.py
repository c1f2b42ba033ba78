"""Machine code from declarations: expressions become functions of vectors, these loops, and LLVM compiles them."""
