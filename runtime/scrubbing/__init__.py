"""What must not leave this machine in clear: rules, and what they do to text and to other data."""
