"""The kernel as the checkpointer uses it: processes, control groups, mounts, files. Does not know CRIU."""
