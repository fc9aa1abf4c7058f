"""Shells on their terminals: commands, marks, leases, typing, waiting."""
