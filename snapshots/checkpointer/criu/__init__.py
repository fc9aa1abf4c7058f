"""CRIU: its start, its image files, and the features of the machine that both depend on."""
