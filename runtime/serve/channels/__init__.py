"""Many calls over one WebSocket, each on a channel of its own."""
