"""A container before its session runs: its first process, its mounts, its network."""
