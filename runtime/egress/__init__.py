"""A session's reach over the network: decided on the host, set in the container before anything runs."""
