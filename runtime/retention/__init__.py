"""Retention: how long automatic snapshots are kept, quotas, and garbage collection."""
