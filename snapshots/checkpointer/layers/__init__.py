"""Copies what a session wrote over its image, most of it before the session is frozen."""
