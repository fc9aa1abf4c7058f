"""Commands that run apart from the shells."""
