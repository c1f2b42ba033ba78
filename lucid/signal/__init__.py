"""Signals: windows; `lucid.stft` and `lucid.istft` live here too."""

from lucid.backends.numpy import signal as _kernels  # noqa: F401 -- they fill the table
from lucid.signal import windows as windows

__all__ = ["windows"]
