"""Describes a tree of processes in one form, from CRIU's images and from the kernel.

Both sides of a comparison are made here, so that they can be compared word by word on the host
(`snapshots/record.py` has the form). Nothing here decides what is allowed or expected.
"""

import os


class ImagesUnreadable(Exception):
    """The images are not what CRIU writes."""


def text(value: str | bytes) -> str:
    """Return a string of a message; protobuf gives bytes for what is not UTF-8, such as file names."""
    return value if isinstance(value, str) else os.fsdecode(value)
