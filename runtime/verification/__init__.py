"""Verification of restores: the restored state equals the captured one, and has no more privileges.

`gate` answers the checkpointer while a restore is paused. `snapshots/snapshot_policy.py` decides what is
allowed, `snapshots/verification.py` what deviates.
"""
