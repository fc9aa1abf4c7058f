"""The code of the gateway's container, and the rules it follows. Imports nothing of the host's side."""
