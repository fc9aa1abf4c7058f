"""The web page for people, which the server has at `/`, and its keys."""
