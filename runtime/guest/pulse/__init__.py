"""What can be seen of a session from inside: processes, where they come from, what they wait for."""
