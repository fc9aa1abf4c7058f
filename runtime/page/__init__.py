"""The web page for people: what the server answers at `/`, and who a page is let in as."""
