"""Sessions as environments of agent frameworks; one module each, which imports the framework."""
