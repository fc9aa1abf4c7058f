"""Which snapshots are taken by themselves, which are kept for how long, and what is cleared away."""
