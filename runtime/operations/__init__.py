"""The context that is handed down, and operations that are undone if they are cut short."""
