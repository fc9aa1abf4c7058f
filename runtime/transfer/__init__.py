"""Snapshots on their way between homes: rows and images here, bundles there."""
