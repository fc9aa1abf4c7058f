"""Requirements of the machine, and checks that it meets them."""
