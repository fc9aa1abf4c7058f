"""A person's terminal joined to a session's."""
