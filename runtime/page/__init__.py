"""The web page for people, which the server has at `/`, and the keys that let it in."""
