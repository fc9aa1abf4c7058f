"""Files of the session, read and written for callers outside."""
