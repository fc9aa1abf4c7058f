"""What is another in one snapshot than in another, on one line or on several. Reuses drift."""
