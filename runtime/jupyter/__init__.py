"""The API of a Jupyter kernel gateway on the server: kernels of sessions, for front ends of Jupyter."""
