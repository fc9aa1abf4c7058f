"""The control plane of the wire: lives, snapshots, forks, metrics and networks of sandboxes."""
