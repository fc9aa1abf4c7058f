"""Searches a snapshot for secrets before or while it leaves, by the rules of its home.

Our own texts are scrubbed. Memory and files cannot be altered without breaking them, so they are searched;
what is found is reported, or makes the export fail. Archives and compressed files are not opened.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SecretsFound, SnapshotDamaged, StoreError
from holdfast.runtime.egress import vault
from holdfast.runtime.guest.records import masking
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.scrubbing import rules_file, secret_finding, values
from holdfast.runtime.scrubbing.matcher import Matcher
from holdfast.runtime.scrubbing.members import Members
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.scrubbing.search import Search
from holdfast.runtime.scrubbing.secret_finding import SecretFinding
from holdfast.runtime.transfer import memory_owners
from holdfast.runtime.transfer.searched_layers import FILE, SearchedLayers
from holdfast.snapshots import record
from holdfast.snapshots.bundle import image_layers

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine import Engine
    from holdfast.snapshots.manifest import Manifest

_BLOCK = 1 << 20
_MAX_RECORD = 256 << 20


class Inspection:
    """The inspection of one outgoing snapshot.

    Args:
        home: the home whose rules apply.
        kept: the snapshot's manifest.
        secrets: warn, refuse or ignore; None for what the rules say.
        host: variables of this host, whose values may be secret.
        ours: layers of Holdfast's own image, which contain packages only; they are not searched.

    Raises:
        StoreError, InvalidArgument: the rules cannot be used.
    """

    def __init__(
        self,
        home: Home,
        kept: Manifest,
        secrets: str | None,
        host: Mapping[str, str],
        ours: Sequence[str] = (),
    ) -> None:
        rules = rules_file.read(home)
        self._action = rules_file.action(secrets, rules)
        self._kept = kept
        given = kept.options.get("env")
        own = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
        known = [
            *values.rules(vault.values(home), ["*"]),
            *values.rules(host, rules.env),
            *values.rules(own, [*rules.env, *filter(masking.secret, own)]),
        ]
        every = [*known, *rules.rules] if self._action != "ignore" else []
        self.scrubber = Scrubber(Matcher(every, rules.allow))
        self._wide = Matcher(every, rules.allow, wide=True)
        paths = rules_file.paths(rules.files)
        self._layers = SearchedLayers(self._wide, paths, home.root / "cache" / FILE, ours)
        self._found: list[SecretFinding] = []

    @property
    def refuses(self) -> bool:
        """True if nothing that holds a secret may leave."""
        return self._action == "refuse"

    @property
    def passing(self) -> SearchedLayers | None:
        """The filter that layers pass through; None if they are not searched."""
        return None if self._action == "ignore" else self._layers

    @property
    def found(self) -> tuple[SecretFinding, ...]:
        """The findings so far."""
        return secret_finding.ordered(self._found)

    def warnings(self) -> list[str]:
        """Describe the findings and scrubbed secrets in words."""
        return secret_finding.sentences(self.found, self.scrubber.counts)

    def layers(self, engine: Engine, ref: str, diff_ids: Sequence[str]) -> None:
        """Search those layers of an image that did not pass through the filter."""
        if self._action == "ignore":
            return
        image_layers.each(engine, ref, self._layers.missing(diff_ids), self._layers.read)
        for diff_id in diff_ids:
            self._found += self._layers.found(diff_id) or []

    def files(self, folder: Path, known: record.StateRecord | None) -> None:
        """Search the files of a snapshot, except those that `rewritten` handles."""
        if self._action == "ignore":
            return
        names = [entry.name for entry in self._kept.files]
        owned = memory_owners.owners(folder, names, known)
        for name in names:
            if name in (record.FILE, baseline.FILE):
                continue
            where, kind = memory_owners.place(name, owned)
            members = Members() if name.endswith(".tar") else None
            search = Search(self._wide, members.name_at) if members is not None else Search(self._wide)
            _read(folder / name, search, members)
            if members is None:
                self._found += secret_finding.of(_at(where, search), kind, self._wide, search.more)
            else:
                self._found += secret_finding.of(search.found, "shared memory", self._wide, search.more)

    def rewritten(self, folder: Path) -> dict[str, bytes]:
        """Return the records beside the images that hold a secret, with the secret removed."""
        found: dict[str, bytes] = {}
        for name in (record.FILE, baseline.FILE):
            if self._action == "ignore" or not any(entry.name == name for entry in self._kept.files):
                continue
            value = _read_record(folder / name)
            changed = self._without_commands(value) if name == record.FILE else self.scrubber.value(value)
            if changed != value:
                data = json.dumps(changed, separators=(",", ":")).encode()
                found[name] = gzip.compress(data, compresslevel=1, mtime=0)
        return found

    def refuse(self, name: str) -> None:
        """Refuse if anything was found.

        Raises:
            SecretsFound: with the findings.
        """
        if found := self.found:
            raise SecretsFound(
                f"cannot export {self.scrubber.text(name)}: it holds secrets: {secret_finding.listed(found)}",
                hint="remove them from the session and capture it again; `allow` in scrub.json exempts "
                "what is not secret, --secrets warn lets it leave",
                findings=tuple(one.as_dict() for one in found),
            )

    def _without_commands(self, value: Any) -> Any:
        """Remove secrets from command lines of a record; names, which a restore compares, are only
        searched.
        """
        processes = [
            {**one, "command": self.scrubber.text(str(one["command"]))[:4200]} if one.get("command") else one
            for one in value["tree"]["processes"]
        ]
        changed = {**value, "tree": {**value["tree"], "processes": processes}}
        search = Search(self._wide)
        search.feed(json.dumps(changed, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        search.end()
        where = "names of open files and the like in its record"
        self._found += secret_finding.of(_at(where, search), "record", self._wide, search.more)
        return changed


def _at(where: str, search: Search) -> dict[tuple[str, str], int]:
    """Return the findings in a source that is one place."""
    return {(rule, where): count for (rule, _), count in search.found.items()}


def _read_record(path: Path) -> Any:
    try:
        with gzip.open(path) as file:
            return json.loads(file.read(_MAX_RECORD))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SnapshotDamaged(f"cannot read {path.name} of a snapshot: it is damaged") from error


def _read(path: Path, search: Search, members: Members | None) -> None:
    """Feed a file to the search, skipping holes of a sparse one."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            at = 0
            while at < size:
                start = at if members is not None else _data_after(file.fileno(), at, size)
                if start > at:
                    search.skip(start - at)
                file.seek(start)
                data = file.read(_BLOCK)
                if not data:
                    break
                if members is not None:
                    members.feed(data)
                search.feed(data)
                at = start + len(data)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    search.end()


def _data_after(descriptor: int, at: int, size: int) -> int:
    """Return the offset of the next bytes that are not a hole (lseek(2)); the end if there are none."""
    try:
        return min(size, os.lseek(descriptor, at, os.SEEK_DATA))
    except OSError:
        return size
