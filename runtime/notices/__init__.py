"""Notices of sessions: their rules, subscriptions and delivery, by push or by requests to a URL."""
