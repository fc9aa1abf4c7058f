"""Removal of secrets from data that leave this machine: rules, and their application to text and other
data."""
