"""Capture: from a running session to a snapshot."""
