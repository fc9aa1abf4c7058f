"""The state that CRIU does not carry: noted by a capture, and brought back in a copy."""
