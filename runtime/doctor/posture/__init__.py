"""The security posture of a machine: what holds sessions here, and what could be added."""
