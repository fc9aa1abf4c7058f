"""Programs that wait and programs that do not, run in a session: what is reported of them, and how soon."""
