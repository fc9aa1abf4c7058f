"""Proves that what a restore made is what was captured, and no more privileged than a session may be.

`taken` writes the record of a capture; `gate` answers the checkpointer while a restore stands still. What is
allowed and what deviates is decided in `snapshots/snapshot_policy.py` and `snapshots/verification.py`.
"""
