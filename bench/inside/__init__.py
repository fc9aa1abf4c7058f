"""Programs that run in a container while it is measured. Each is one file that needs nothing but Python."""
