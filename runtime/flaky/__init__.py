"""The same moment many times: a command run in forks of a snapshot, and how it went."""
