"""Repeated runs from one snapshot: a command run in many copies, and the spread of its outcomes."""
