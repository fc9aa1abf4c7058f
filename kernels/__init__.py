"""Jupyter kernels that live inside a session."""
