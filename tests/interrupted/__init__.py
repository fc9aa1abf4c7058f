"""A task whose worker, controller and container are killed, and which is finished all the same."""
