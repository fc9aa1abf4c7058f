"""The paths of the server. Thin: each calls what the controller's handles offer under the same name."""
