"""Real programs, captured in the middle of their work: what is tried, how, and what came of it."""
