"""A survey before a capture: the parts of a session that survive it, are reset in a copy, or block it.

`look` reads a tree from outside, the `judge_*` modules classify it, `catalogue` holds the texts. Nothing is
stopped or traced, and nothing in the session can notice.
"""
