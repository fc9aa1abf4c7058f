"""The rows of the benchmark, one file per family."""
