"""Journals of sessions, kept on this host along their lineage."""
