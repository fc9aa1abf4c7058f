"""Registries (OCI Distribution): references, credentials, content by its digest. Knows no snapshots."""
