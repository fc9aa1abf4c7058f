"""What clients ask about files. A path is relative to the session's directory, as everywhere in sessions.

Their own servers take the home of the user instead, and an empty path for that folder.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from holdfast.runtime.e2b.wire_bodies import WireBody
from holdfast.runtime.serve.models.base_models import TEXT

WirePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]
FolderPath = Annotated[str, Field(max_length=4096, pattern=TEXT)]
"""Where an empty path does no harm."""


class StatRequest(WireBody):
    """A file or folder to be looked at."""

    path: FolderPath = ""


class PathRequest(WireBody):
    """A folder to be made, or a file or folder to be removed."""

    path: WirePath


class RenameRequest(WireBody):
    """A file or folder, and its new path."""

    source: WirePath
    destination: WirePath


class ListRequest(WireBody):
    """A folder to be listed, with `depth` levels; 0 counts as 1."""

    path: FolderPath = ""
    depth: Annotated[int, Field(ge=0, lt=2**32)] = 1


class WatchRequest(WireBody):
    """A folder to be watched.

    That network mounts are allowed need not be said: they are watched like others.
    """

    path: FolderPath = ""
    recursive: bool = False
    include_entry: bool = False


class WatcherRequest(WireBody):
    """A watcher that is polled."""

    watcher_id: Annotated[str, Field(max_length=100)]
