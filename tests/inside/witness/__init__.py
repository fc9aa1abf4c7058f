"""Programs that notice if their files, their memory and each other were not kept of one instant.

Runs inside a session. `python3 -m witness KIND FOLDER` works in FOLDER as fast as it can and compares, again
and again, everything there with its memory; a copy whose parts are of different instants notices
automatically. Its findings are in /dev/shm/witness-KIND. `python3 -m witness ask N` waits until each has
compared everything N times more, and prints their reports as one JSON object.
"""
