"""Tools that capture and restore a running process, driven alike."""
