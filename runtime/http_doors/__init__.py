"""What doors over HTTP share: token, socket, connections, and what is refused before anything is read."""
