"""Compatibility of a snapshot with this machine: what it needs, what is here, and which rung follows."""
