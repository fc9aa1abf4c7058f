"""The kernel as the checkpointer uses it: processes, control groups, mounts, files. Knows nothing of CRIU."""
