"""The lineage of snapshots and sessions: order, ancestors, drawing."""
