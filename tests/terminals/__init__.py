"""Real terminals that run unattended, for tests that show them a guest's output."""
