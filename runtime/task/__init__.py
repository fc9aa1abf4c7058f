"""The task record of a session: goal, progress, decisions; and the classification of failures."""
