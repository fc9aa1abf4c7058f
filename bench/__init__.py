"""Benchmarks of Holdfast next to its usual alternatives, in one run on one machine."""
