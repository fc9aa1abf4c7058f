"""Differences between two snapshots, on one line or on several. Reuses drift."""
