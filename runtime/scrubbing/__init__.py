"""Removal of secrets from what leaves this machine: rules, and their application to text and other data."""
