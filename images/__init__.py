"""The images sessions and the checkpointer run from, and how they are built."""
