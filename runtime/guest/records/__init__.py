"""The session's records: journal, recordings, keyed runs."""
