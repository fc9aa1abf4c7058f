"""The view of a session from inside: its processes, their origins and the input they wait for."""
