"""Who the session is, and whose processes it starts."""
