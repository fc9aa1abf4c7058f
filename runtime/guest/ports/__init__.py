"""Connections from this process to servers of the session."""
