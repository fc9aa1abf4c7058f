"""Programs that wait and programs that do not, run in a session: the report on each, and its delay."""
