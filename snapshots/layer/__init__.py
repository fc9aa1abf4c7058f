"""Creation of an image from the copy of a session's layer."""
