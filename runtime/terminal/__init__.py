"""A session's terminal as people and programs see it: screen, keys, lease, attachment."""
