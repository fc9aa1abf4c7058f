"""One node of a cluster: its lease, its keeper, and the sessions that it replicates and brings back."""
