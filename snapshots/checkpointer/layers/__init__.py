"""Copies the files that a session wrote over its image, most of them before the session is frozen."""
