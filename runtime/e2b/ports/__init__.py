"""Traffic to the ports of sandboxes: HTTP and WebSockets, to what listens there on loopback."""
