"""Ground floor: what needs neither the engine nor the store."""
