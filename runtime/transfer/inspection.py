"""Searches a snapshot for secrets before or while it leaves, by the rules of its home.

Our own texts are scrubbed. Memory and files cannot be altered without breaking them, so they are searched;
findings are reported, or make the export fail. Archives and compressed files are not opened.
"""

from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SecretsFound, SnapshotDamaged
from holdfast.runtime.egress import vault
from holdfast.runtime.guest.records import masking
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.scrubbing import known_values, rules_file, secret_search
from holdfast.runtime.scrubbing.members import Members
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.scrubbing.secret_search import Search, SecretFinding
from holdfast.runtime.transfer import searched_parts
from holdfast.runtime.transfer.searched_parts import FILE, SearchedLayers
from holdfast.snapshots import record
from holdfast.snapshots.checkpointer.layers import apart, file_entry

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.snapshots.bundle.earlier_pages import PageRange
    from holdfast.snapshots.bundle.squashed_layers import LeavingImage
    from holdfast.snapshots.manifest import Manifest

_MAX_RECORD = 256 << 20


@dataclass(frozen=True, slots=True)
class SearchedFiles:
    """Files of an earlier snapshot that were searched by some rules, and the findings in each."""

    rules: Any
    found: Mapping[str, Sequence[SecretFinding]]


class Inspection:
    """The inspection of one outgoing snapshot.

    Args:
        home: the home whose rules apply.
        manifest: the snapshot's manifest.
        secrets: warn, refuse or ignore; None for what the rules say.
        host: variables of this host, whose values may be secret.
        ours: layers of Holdfast's own image, which contain packages only; they are not searched.

    Raises:
        StoreError, InvalidArgument: the rules cannot be used.
    """

    def __init__(
        self,
        home: Home,
        manifest: Manifest,
        secrets: str | None,
        host: Mapping[str, str],
        ours: Sequence[str] = (),
    ) -> None:
        rules = rules_file.read(home)
        self._action = rules_file.action(secrets, rules)
        self._manifest = manifest
        given = manifest.options.get("env")
        own = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
        known = [
            *known_values.rules(vault.values(home), ["*"]),
            *known_values.rules(host, rules.env),
            *known_values.rules(own, [*rules.env, *filter(masking.secret, own)]),
        ]
        every = [*known, *rules.rules] if self._action != "ignore" else []
        self.scrubber = Scrubber(Matcher(every, rules.allow))
        self._wide = Matcher(every, rules.allow, wide=True)
        paths = rules_file.paths(rules.files)
        self._layers = SearchedLayers(self._wide, paths, home.root / "cache" / FILE, ours)
        self._found: list[SecretFinding] = []
        self._in_files: dict[str, list[SecretFinding]] = {}

    @property
    def refuses(self) -> bool:
        """True if data with secrets must not leave."""
        return self._action == "refuse"

    @property
    def passing(self) -> SearchedLayers | None:
        """The filter that layers pass through; None if they are not searched."""
        return None if self._action == "ignore" else self._layers

    @property
    def found(self) -> tuple[SecretFinding, ...]:
        """The findings so far."""
        return secret_search.ordered(self._found)

    def warnings(self) -> list[str]:
        """Describe the findings and scrubbed secrets in words."""
        return secret_search.sentences(self.found, self.scrubber.counts)

    def layers(self, image: LeavingImage) -> None:
        """Search those layers of an image that did not pass through the filter."""
        if self._action == "ignore":
            return
        image.each(self._layers.missing(image.facts.layers), self._layers.read)
        for diff_id in image.facts.layers:
            self._found += self._layers.found(diff_id) or []

    @property
    def searched(self) -> SearchedFiles:
        """The files that were searched."""
        return SearchedFiles((self._action == "ignore", self._wide.rules, self._wide.allowed), self._in_files)

    def files(
        self,
        folder: Path,
        known: record.StateRecord | None,
        before: SearchedFiles | None = None,
        changed: Mapping[str, Sequence[PageRange]] | None = None,
    ) -> None:
        """Search the files of a snapshot, except for the ones that `rewritten` handles.

        Of the files in `changed` only parts that `before`, searched by the same rules, lacks are searched.
        """
        if self._action == "ignore":
            return
        names = [entry.name for entry in self._manifest.files]
        owned = searched_parts.memory_owners(folder, names, known)
        for name in names:
            if name in (record.FILE, baseline.FILE):
                continue
            if name == apart.DATA:
                self._in_files[name] = found = self._beside(folder)
                self._found += found
                continue
            ranges = (changed or {}).get(name) if before and before.rules == self.searched.rules else None
            if name.endswith(".tar"):
                members = Members()
                search = Search(self._wide, members.name_at)
                searched_parts.search_file(folder / name, search, members)
                found = secret_search.findings(search.found, "shared memory", self._wide, search.more)
            else:
                where, kind = searched_parts.memory_place(name, owned)
                search = Search(self._wide)
                if before is None or ranges is None:
                    searched_parts.search_file(folder / name, search)
                    earlier: Sequence[SecretFinding] = ()
                else:
                    searched_parts.search_new(folder / name, search, ranges)
                    earlier = before.found.get(name, ())
                now = secret_search.findings(_at(where, search), kind, self._wide, search.more)
                known_ones = {(one.rule, one.where) for one in earlier}
                found = [*earlier, *(one for one in now if (one.rule, one.where) not in known_ones)]
            self._in_files[name] = found
            self._found += found

    def _beside(self, folder: Path) -> list[SecretFinding]:
        """Search the session's files that layers cannot hold, and name them like files of a layer."""
        try:
            kept = apart.read(folder)
        except OSError as error:
            raise SnapshotDamaged(f"cannot read the files kept with the image: {error}") from error
        paths = [f"/{item.path}" for item in kept if item.kind not in (file_entry.TOUCH, file_entry.SAME)]
        begins = sorted((item.offset, f"/{item.path}") for item in kept if item.stored)
        search = Search(self._wide, lambda at: begins[bisect_right(begins, (at, "\U0010ffff")) - 1][1])
        searched_parts.search_file(folder / apart.DATA, search)
        found = secret_search.findings(search.found, "layer", self._wide, search.more)
        return [*found, *self._layers.named(paths)]

    def rewritten(self, folder: Path) -> dict[str, bytes]:
        """Return the records kept with the images that hold a secret, with the secret removed."""
        found: dict[str, bytes] = {}
        for name in (record.FILE, baseline.FILE):
            if self._action == "ignore" or not any(entry.name == name for entry in self._manifest.files):
                continue
            value = _read_record(folder / name)
            changed = self._without_commands(value) if name == record.FILE else self.scrubber.value(value)
            if changed != value:
                data = json.dumps(changed, separators=(",", ":")).encode()
                found[name] = gzip.compress(data, compresslevel=1, mtime=0)
        return found

    def refuse(self, name: str) -> None:
        """Refuse if there are findings.

        Raises:
            SecretsFound: with the findings.
        """
        if found := self.found:
            raise SecretsFound(
                f"cannot export {self.scrubber.text(name)}: it holds secrets: {secret_search.listed(found)}",
                hint=(
                    "remove them from the session and capture it again; `allow` in scrub.json "
                    "exempts harmless matches, and --secrets warn exports anyway"
                ),
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
        self._found += secret_search.findings(_at(where, search), "record", self._wide, search.more)
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
