"""Files of sessions, copied in and out."""
