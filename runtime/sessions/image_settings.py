"""The settings of an image that a session takes over, which are its files and its variables.

An image can also set labels, which other programs on the host act upon; volumes, whose contents are in no
snapshot; a health check, which the engine runs with the container's own capabilities; and more. All settings
that `session_options` does not set itself are overridden here. Variables are kept: only programs of the
session see them. Pure.
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
    """Check by the image's configuration that a session can be made of it.

    Raises:
        ImageError: it declares volumes.
    """
    volumes = sorted(config.get("Volumes") or {})
    if volumes:
        raise ImageError(
            f"cannot use image {name}: it declares a volume at {plain(', '.join(volumes), 200)}, "
            "and snapshots do not include volumes",
            hint="build it without VOLUME; `--mount` shares a folder of the host",
        )


def without_labels(config: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, str]:
    """Return a container's own labels, and its image's with empty values: an engine cannot omit those."""
    inherited = {str(name): "" for name in config.get("Labels") or {} if not str(name).startswith(_OURS)}
    return {**inherited, **labels}
