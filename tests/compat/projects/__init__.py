"""Suites of real projects, run plain, captured while they run, and continued in copies; then compared."""
