"""The parts of one session: options, container settings, health, identity messages, shared folder."""
