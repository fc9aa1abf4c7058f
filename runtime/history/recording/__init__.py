"""Recordings of terminals: found, read, played, written as a cast."""
