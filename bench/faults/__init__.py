"""Kills what takes part in captures and restores, at random moments, and counts what sessions survive."""
