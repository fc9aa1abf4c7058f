"""Sessions over HTTP and WebSockets: the controller, for programs that are not in its process."""
