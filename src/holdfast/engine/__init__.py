"""Ground floor: the Docker engine, and the only importer of its SDK."""
