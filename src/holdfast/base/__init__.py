"""Ground floor: modules that need neither the engine nor the store."""
