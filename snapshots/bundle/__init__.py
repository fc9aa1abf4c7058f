"""Snapshots as portable artifacts: their form as OCI content, their files, signatures and encryption."""
