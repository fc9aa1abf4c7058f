"""What a session's terminal showed: found, read, played, written as a cast."""
