"""Begins and ends sessions, and takes back what was begun."""
