"""Tools that capture and restore a running process, behind one interface."""
