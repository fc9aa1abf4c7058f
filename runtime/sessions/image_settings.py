"""What an image may say about the containers made of it, and what a session takes from that: its files alone.

An engine lets an image name labels, which other programs on the host act upon; volumes, whose contents are in
no snapshot; a health check, which the engine runs with the container's own capabilities; and more. Whatever
`session_options` does not set itself is answered here. Variables are kept: only programs of the session see
them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import ImageError

_OURS = "holdfast."
NO_HEALTH_CHECK = {"test": ["NONE"]}
STOP_SIGNAL = "SIGTERM"


def check(name: str, config: Mapping[str, Any]) -> None:
    """See that a session can be made of an image, by its configuration as the engine tells it.

    Raises:
        ImageError: it has volumes.
    """
    volumes = sorted(config.get("Volumes") or {})
    if volumes:
        raise ImageError(
            f"cannot use image {name}: it declares a volume at {plain(', '.join(volumes), 200)}, "
            "and what is in a volume is in no snapshot",
            hint="build it without VOLUME; `--mount` shares a folder of the host",
        )


def without_labels(config: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, str]:
    """A container's own labels, and its image's emptied: an engine cannot leave those out."""
    inherited = {str(name): "" for name in config.get("Labels") or {} if not str(name).startswith(_OURS)}
    return {**inherited, **labels}
