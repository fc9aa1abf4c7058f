"""The conversation with the host: its requests, their form, and the time that each can take."""
