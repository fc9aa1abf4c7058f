"""Sessions over many machines: which node runs which, and where they return when a machine is lost."""
