"""Signals: windows; `lucid.stft` and `lucid.istft` live here too."""

from lucid.signal import windows as windows

__all__ = ["windows"]
