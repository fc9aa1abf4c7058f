"""The session's identity, and the user account its processes run as."""
