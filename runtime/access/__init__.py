"""Keys of a server: their scopes, their users, and a trail of their requests."""
