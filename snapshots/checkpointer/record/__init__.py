"""Describes a tree of processes in one form, from CRIU's images and from the kernel.

Both sides of a comparison are made here, so that they can be compared word by word on the host
(`snapshots/record.py` has the form). Nothing here decides what is allowed or expected.
"""

import os
from typing import Any, Protocol

REMOVED_FOLDER = ".holdfast-removed-"
"""The beginning of the name a removed folder gets if something has its own by now; a number follows."""


class ImagesUnreadable(Exception):
    """The images are not in CRIU's format."""


class ImageMessages(Protocol):
    """The images of a snapshot, by their messages; see `criu_images.ImageFolder`."""

    def messages(self, name: str) -> list[Any]:
        """Return the messages of an image; none if the image is missing."""


def text(value: str | bytes) -> str:
    """Return a string of a message; protobuf gives bytes for invalid UTF-8, such as file names."""
    return value if isinstance(value, str) else os.fsdecode(value)
