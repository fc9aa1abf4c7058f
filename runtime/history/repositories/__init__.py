"""The state of Git repositories in a session, read without running anything of theirs."""
