"""Restore: from a snapshot to a running session."""
