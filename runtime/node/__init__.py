"""One node of a cluster: its lease, its keeper, what it replicates, what it brings back."""
