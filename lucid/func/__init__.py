"""Composable transforms of functions."""
