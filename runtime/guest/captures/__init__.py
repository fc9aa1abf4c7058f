"""Captures as the guest sees them: asked for, paused for, told of."""
