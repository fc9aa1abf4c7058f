"""Kills of the processes of captures and restores, at random points, and the survival of sessions."""
