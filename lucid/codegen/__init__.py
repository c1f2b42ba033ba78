"""Machine code from declarations: expressions become functions of vectors, these loops, and LLVM compiles them."""

import os
import threading

# One thread at a time makes code, and imports what makes it. A process forks when nobody does: its child would wait for a
# thread that is gone. So there is nothing to renew after_fork.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
