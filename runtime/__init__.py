"""Sessions: what runs, who drives it, what it did."""
