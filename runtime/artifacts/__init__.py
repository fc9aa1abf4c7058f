"""Artifacts: files that the work in a session has produced, kept beyond the session's life."""
