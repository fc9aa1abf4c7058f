"""What a machine must offer, and whether it does."""
