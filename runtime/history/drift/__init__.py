"""Drift: what changed in a session since a point in time, and who changed it. `observe_session` is the
driver.
"""
