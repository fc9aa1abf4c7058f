"""Registries (OCI Distribution): references, credentials, and content by digest. Does not know snapshots."""
