"""Compatibility of a snapshot with this machine: its needs, the machine's features, and the resulting
rung."""
