"""Registries (OCI Distribution): references, credentials, and content by digest. Knows no snapshots."""
