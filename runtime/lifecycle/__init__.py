"""Creation and removal of sessions, and the undoing of either."""
