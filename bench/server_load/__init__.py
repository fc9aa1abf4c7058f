"""The load of many clients on one server, which is killed during the operation."""
