"""Keys of a server: what they may do, whose they are, and what was done with them."""
