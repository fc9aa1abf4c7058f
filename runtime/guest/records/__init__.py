"""What a session writes down: journal, recordings, keyed runs."""
