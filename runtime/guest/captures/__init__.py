"""Captures as the guest sees them: requests, the pause, the notifications."""
