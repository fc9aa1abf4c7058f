"""Moving a session to another machine: the source drives a receiver there over one stream."""
