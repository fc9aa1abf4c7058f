"""Command lines on an engine of another machine, run by a controller next to that engine."""
