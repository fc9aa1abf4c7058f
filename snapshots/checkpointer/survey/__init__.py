"""Tells before a capture what of a session survives it, what a copy finds reset, and what makes it fail.

`look` reads a tree from outside, the `judge_*` modules classify what it saw, `catalogue` has the words.
Nothing is stopped or traced for it, and nothing in the session can notice.
"""
