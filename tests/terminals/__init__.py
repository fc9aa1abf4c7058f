"""Real terminals that run without anybody looking, for tests that show them what a guest writes."""
