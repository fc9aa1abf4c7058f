"""Programs that callers start directly: arguments instead of a shell's text, pipes instead of a terminal."""
