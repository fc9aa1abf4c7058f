"""The security posture of a machine: what confines sessions here, and what could be added."""
