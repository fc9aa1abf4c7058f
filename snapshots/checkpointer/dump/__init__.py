"""One capture of a running session, and the repair of one that was cut short."""
