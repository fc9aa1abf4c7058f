"""The common parts of doors over HTTP: token, socket, connections, and early refusals."""
