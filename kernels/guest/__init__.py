"""Drives Jupyter kernels from inside the container. Imports nothing of the host side."""
