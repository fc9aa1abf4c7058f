"""Real software in sessions: suites of projects (`projects`), and single programs (`programs`)."""
