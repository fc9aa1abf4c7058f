"""The view of a session from inside: its processes, where they come from and what they wait for."""
