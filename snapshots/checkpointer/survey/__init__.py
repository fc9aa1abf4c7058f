"""A survey before a capture: what of a session survives it, is reset in a copy, or makes the capture fail.

`look` reads a tree from outside, the `judge_*` modules classify it, `catalogue` holds the texts. Nothing is
stopped or traced, and nothing in the session can notice.
"""
