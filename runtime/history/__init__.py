"""What happened over time: lineage, drift, differences, recordings."""
