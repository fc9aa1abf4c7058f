"""The ends of sessions, their sleep, and how they wake."""
