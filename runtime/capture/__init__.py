"""From a running session to a snapshot."""
