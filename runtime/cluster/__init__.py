"""Sessions over many machines: who may run what, and where a session returns after its machine is lost."""
