"""The program inside the checkpointer container: the only privileged part.

It identifies a session by container id and process ids, checks them against the kernel,
and drives CRIU. Standard library and pycriu only; it imports nothing of the host side.
"""
