"""What all calls of the engine's API share: errors in our words, filters by label, layers as folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the SDK raises in the block into our errors: "cannot WHAT: …"."""
    # Imported late for the sake of commands that need no engine.
    from holdfast.engine import engine_faults

    with engine_faults.translated(what):
        yield


def filters(labels: Mapping[str, str]) -> list[str]:
    """Labels as the engine filters by them: `holdfast_home` is `holdfast.home`."""
    return [f"{key.replace('_', '.')}={value}" for key, value in labels.items()]


def layers_of(raw: Mapping[str, Any]) -> list[Path]:
    """The folders of what was inspected, the topmost first; none unless they are of overlay2."""
    driver = raw.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") != "overlay2" or not data.get("UpperDir"):
        return []
    lowers = [path for path in str(data.get("LowerDir") or "").split(":") if path]
    return [Path(data["UpperDir"]), *map(Path, lowers)]
