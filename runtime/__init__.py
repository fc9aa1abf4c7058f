"""Sessions: the running programs, the people and agents who drive them, and the record of the work."""
