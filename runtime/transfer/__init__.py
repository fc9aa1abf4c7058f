"""Transfer of snapshots between homes: rows and images here, bundles there."""
