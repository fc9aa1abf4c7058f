"""From a snapshot to a running session."""
