"""The public objects: the controller, handles on sessions and snapshots, and their values."""
