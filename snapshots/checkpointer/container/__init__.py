"""A container before anything of its session runs in it: its first process, its mounts, its network."""
