"""Commands that run outside the shells."""
