"""The code that runs inside a session's container. Imports nothing of the host side."""
