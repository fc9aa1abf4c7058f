"""Which snapshot comes after which, how that is drawn, and going back to one in place."""
