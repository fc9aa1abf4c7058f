"""The state that CRIU does not carry: recorded by a capture, and recreated in a copy."""
