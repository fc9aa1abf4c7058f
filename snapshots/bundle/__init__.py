"""Snapshots as portable artifacts: form as OCI content, files, signatures and encryption."""
