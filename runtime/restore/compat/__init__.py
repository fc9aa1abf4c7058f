"""Whether a snapshot can go on here: what it needs, what is here, what is done about it."""
