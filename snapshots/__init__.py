"""Capturing a session at one instant, keeping it, and bringing it back."""
