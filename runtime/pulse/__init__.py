"""The pulse of a session: taken, checked, and as values."""
