"""What a program holds: the controller, handles on sessions and snapshots, and their values."""
