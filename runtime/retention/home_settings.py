"""Settings of a whole home: the quota of its snapshots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.base import private_files
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from holdfast.base.home import Home

FILE = "settings.json"


def quota(home: Home) -> int | None:
    """Return the bytes that all snapshots may take; None without a limit.

    Raises:
        StoreError: the file cannot be read. An unknown limit does not count as none.
    """
    path = home.root / FILE
    try:
        found = json.loads(path.read_text()).get("quota")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error}", hint="`holdfast quota SIZE` rewrites it") from error
    return found if isinstance(found, int) and found > 0 else None


def set_quota(home: Home, size: int | None) -> None:
    """Set or lift the limit atomically.

    Raises:
        StoreError: the file cannot be written.
    """
    path = home.root / FILE
    try:
        private_files.replace(path, json.dumps({"quota": size}))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
