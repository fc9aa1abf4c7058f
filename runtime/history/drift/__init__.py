"""Drift: the changes in a session since a point in time, and their authors. `observe_session` is the
driver.
"""
