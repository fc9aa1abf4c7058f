"""What changed in a session since a moment, and by whom. Values and decisions; `observe` is the driver."""
