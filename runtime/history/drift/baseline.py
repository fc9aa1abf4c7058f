"""The baseline of a snapshot, for comparison with later states: the session's holdings, and its changed
files.

It is taken before the capture.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SnapshotDamaged
from holdfast.runtime.history.drift import holdings, observe_session, packages
from holdfast.runtime.history.drift.changed_paths import Change, Key, PathEntry, Table
from holdfast.runtime.history.drift.holdings import Holdings
from holdfast.runtime.history.drift.packages import Package
from holdfast.snapshots import form_number

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.guest_rpc.guest_client import GuestClient


FILE = "baseline.json.gz"
FORMAT = 1
MAX_BYTES = 256 << 20
_CHANGES: tuple[Change, ...] = ("changed", "new", "deleted")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The state at a capture. `base` is the snapshot its container was made from (None: the plain image);
    `table` lists how its files differ from that; `keys` and `versions` are the packages among them.
    """

    base: str | None
    held: Holdings
    table: Table
    keys: tuple[Key, ...] = ()
    versions: tuple[str, ...] = ()

    def known(self) -> dict[Key, str]:
        """Return versions by package."""
        return {key: version for key, version in zip(self.keys, self.versions, strict=False) if version}


def write(folder: Path, baseline: Baseline) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written.
    """
    fields = {
        "format": FORMAT,
        "base": baseline.base,
        "held": holdings.encode(baseline.held),
        "files": [
            [path, _CHANGES.index(one.change), one.kind, one.size, one.ctime, one.owner]
            for path, one in baseline.table.items()
        ],
        "versions": [[*key, version] for key, version in zip(baseline.keys, baseline.versions, strict=True)],
    }
    data = json.dumps(fields, separators=(",", ":")).encode()
    (folder / FILE).write_bytes(gzip.compress(data, compresslevel=1, mtime=0))


def read(folder: Path) -> Baseline | None:
    """Return the baseline of a snapshot; None if it was taken without one.

    Raises:
        SnapshotNewer: a newer version wrote it.
        SnapshotDamaged: it cannot be read.
    """
    try:
        with gzip.open(folder / FILE) as file:
            data = file.read(MAX_BYTES + 1)
        fields = json.loads(data)
        if form_number.newer_than(number := fields[form_number.FIELD], FORMAT):
            raise form_number.refusal(folder.name, form_number.in_words(number, FORMAT), "what it held")
        if number != FORMAT:
            raise ValueError(f"form {number!r}")
        return _baseline(fields)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, IndexError) as error:
        raise SnapshotDamaged(
            f"cannot compare with snapshot {folder.name}: its baseline is damaged"
        ) from error


def _baseline(fields: dict[str, Any]) -> Baseline:
    return Baseline(
        fields["base"],
        holdings.parse(fields["held"]),
        {
            str(path): PathEntry(_CHANGES[change], str(kind), int(size), int(ctime), owner=int(owner))
            for path, change, kind, size, ctime, owner in fields["files"]
        },
        tuple((str(a), str(b), str(c)) for a, b, c, _ in fields["versions"]),
        tuple(str(version) for *_, version in fields["versions"]),
    )


def take_baseline(
    engine: Engine, client: GuestClient, container: str, layers: Sequence[Path], base: str | None
) -> Baseline:
    """Return the baseline. Files come first: a change in between is reported twice rather than never.

    `layers` are the container's, as `engine.files.layers` returns them.

    Raises:
        GuestError, EngineError: the session or the engine does not answer.
    """
    table, found, versions = files_and_packages(engine, client, container, 0.0, layers)
    keys = tuple(one.key for one in found)
    settled = packages.settle(found, versions, {})
    by_key = {one.key: one.new or "" for one in settled}
    held: Holdings = observe_session.held(client)
    return Baseline(base, held, table, keys, tuple(by_key.get(key, "") for key in keys))


def files_and_packages(
    engine: Engine,
    client: GuestClient,
    container: str,
    since: float,
    layers: Sequence[Path] | None = None,
) -> tuple[dict[str, PathEntry], list[Package], dict[tuple[str, str, str], dict[str, str]]]:
    """Return how the files differ from the image, the packages among them, and the guest's facts on these."""
    differing = observe_session.differing(engine, container, layers)
    found = observe_session.candidates(differing)
    table, versions = observe_session.table(client, differing, found, since)
    return table, found, {found[number].key: one for number, one in versions.items() if number < len(found)}
