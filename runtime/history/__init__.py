"""The past of sessions: lineage, drift, differences, recordings."""
