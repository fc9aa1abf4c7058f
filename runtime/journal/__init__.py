"""What was done in sessions: journals of sessions, kept on this host along their lineage."""
