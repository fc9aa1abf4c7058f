"""Rewind: takes a session back to a snapshot in place."""
