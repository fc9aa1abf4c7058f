"""Processes of sandboxes, as clients of this wire start, follow and steer them."""
