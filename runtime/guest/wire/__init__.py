"""The supervisor's end of the protocol: frames, connections, and an operation for each request."""
