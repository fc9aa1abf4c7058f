"""The task of a session: what is to be done in it, how far it is and why; and the kinds of failures."""
