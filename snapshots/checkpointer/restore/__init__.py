"""One restore: the images as the copy needs them, its judge, and its first moments."""
