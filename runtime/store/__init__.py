"""The records of sessions, snapshots and operations, on disk."""
