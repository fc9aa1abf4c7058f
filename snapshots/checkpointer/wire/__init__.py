"""The conversation with the host: its requests, their form, and the time that they may take."""
