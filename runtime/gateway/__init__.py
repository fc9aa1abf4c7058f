"""What runs in the gateway's container, and the rules it goes by. Imports nothing of the host's side."""
