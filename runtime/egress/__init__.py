"""What a session reaches over the network: decided on the host, set in the container before anything runs."""
