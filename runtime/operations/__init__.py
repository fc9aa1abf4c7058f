"""The context of a call, and operations that are undone when they are cut short."""
