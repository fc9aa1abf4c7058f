"""What is known about sessions, snapshots and operations, on disk."""
