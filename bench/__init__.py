"""Measures Holdfast next to what people use otherwise, in one run on one machine."""
