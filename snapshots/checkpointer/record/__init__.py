"""Says what a tree of processes is, in one form: as CRIU's images tell it, and as the kernel tells it.

Both sides of a comparison are made here, so that they can be compared word by word on the host
(`snapshots/record.py` has the form). Nothing here decides what is allowed or expected.
"""

import os


class Unreadable(Exception):
    """The images are not what CRIU writes."""


def text(value: str | bytes) -> str:
    """A string of a message; protobuf gives bytes for what is not UTF-8, as names of files may be."""
    return value if isinstance(value, str) else os.fsdecode(value)
