"""Counts assignments to attributes of modules, so that compiled functions know when to look at these again."""

count = [0]  # a list: those who read it often keep it
