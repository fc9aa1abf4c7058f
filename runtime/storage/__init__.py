"""What snapshots take on the disk: counted, swept, verified, repaired."""
