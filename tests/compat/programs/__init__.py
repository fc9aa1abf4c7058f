"""Real programs, captured in the middle of their work: the catalog, the trial, and the outcome."""
