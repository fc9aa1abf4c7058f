"""Disk storage of snapshots: accounting, sweeping, verification, repair."""
