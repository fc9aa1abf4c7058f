"""Jobs of a CI system in sessions: run, watched, and captured alive when they fail."""
