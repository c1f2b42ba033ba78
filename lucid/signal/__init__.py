"""Signals: windows."""
