"""Capture of a session at one instant, storage of the snapshot, and restore."""
