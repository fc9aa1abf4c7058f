"""The host's end of the protocol: requests to a session's supervisor, across lost connections."""
