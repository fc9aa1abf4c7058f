"""Calls that may take any time, for every way in which a client can make them: over HTTP or a WebSocket."""
