"""The load of many clients on one server, which is killed in the middle of it."""
