"""Makes an image of the copy of a session's layer."""
