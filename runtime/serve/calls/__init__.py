"""Calls of any length, for every way in which a client can make them: over HTTP or a WebSocket."""
