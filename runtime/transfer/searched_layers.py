"""Searches the layers of an image on their way out, and remembers the findings.

A layer is identified by its digest: one that was searched with the same rules is not read again. Of findings
only rules, places and counts are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.base import private_files
from holdfast.runtime.scrubbing import secret_search
from holdfast.runtime.scrubbing.members import Members
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.secret_search import MOST_MATCHES, Search, SecretFinding
from holdfast.snapshots.bundle.image_layers import Hashed

FILE = "searched.json"
_SALT = re.compile(r"[0-9a-f]{32}")
CREDENTIALS = "credential file"
MOST_REMEMBERED = 2000
FORMAT = 1
"""Part of the identity of rules: a change of the built-in searches makes all layers be searched again."""


class SearchedLayers:
    """The searched layers of one home, for one set of rules.

    Args:
        matcher: finds the secrets.
        files: an expression for paths that hold credentials, or None.
        path: the file of the cache.
        besides: layers that need no search.
    """

    def __init__(self, matcher: Matcher, files: Any, path: Path, besides: Sequence[str] = ()) -> None:
        self._matcher = matcher
        self._files = files
        self._path = path
        self._besides = frozenset(besides)
        self._all: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            value = json.loads(path.read_text())
            self._all = value if isinstance(value, dict) else {}
        salt = self._all.get("salt")
        self._salt = salt if isinstance(salt, str) and _SALT.fullmatch(salt) else os.urandom(16).hex()
        self._all["salt"] = self._salt
        self._key = self._named(matcher, files)

    def found(self, diff_id: str) -> list[SecretFinding] | None:
        """Return the findings in a layer; None if it has not been searched."""
        if diff_id in self._besides:
            return []
        value = self._all.get(f"{self._key} {diff_id}")
        try:
            return None if value is None else [SecretFinding(*one) for one in value]
        except TypeError:
            return None

    def missing(self, diff_ids: Sequence[str]) -> list[str]:
        """Return the layers that have not been searched."""
        return [each for each in dict.fromkeys(diff_ids) if self.found(each) is None]

    def passing(self, layer: Hashed) -> Iterator[bytes]:
        """Yield a layer unchanged, searching it on the way."""
        if layer.wanted in self._besides:
            yield from layer
            return
        credentials: Counter[tuple[str, str]] = Counter()

        def met(path: str) -> None:
            if len(credentials) < MOST_MATCHES and self._files.fullmatch(
                path.encode("utf-8", "surrogateescape")
            ):
                credentials[CREDENTIALS, path] += 1

        members = Members(met) if self._files else Members()
        search = Search(self._matcher, members.name_at)
        for piece in layer:
            members.feed(piece)
            search.feed(piece)
            yield piece
        search.end()
        found = secret_search.findings(search.found, "layer", self._matcher, search.more)
        files = secret_search.findings(credentials, "layer", self._matcher)
        self._remember(layer.digest, [*found, *files])

    def named(self, paths: Iterable[str]) -> list[SecretFinding]:
        """Return the paths that hold credentials, by their names."""
        credentials: Counter[tuple[str, str]] = Counter()
        for path in paths if self._files else ():
            if len(credentials) < MOST_MATCHES and self._files.fullmatch(
                path.encode("utf-8", "surrogateescape")
            ):
                credentials[CREDENTIALS, path] += 1
        return secret_search.findings(credentials, "layer", self._matcher)

    def read(self, layer: Hashed) -> None:
        """Search a layer that is not sent."""
        for _ in self.passing(layer):
            pass

    def _remember(self, diff_id: str, found: Sequence[SecretFinding]) -> None:
        listed = [[one.rule, one.count, one.where, one.kind, one.more] for one in found]
        self._all[f"{self._key} {diff_id}"] = listed
        for old in list(self._all)[1 : 1 + max(0, len(self._all) - MOST_REMEMBERED)]:
            del self._all[old]
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._path, json.dumps(self._all), durable=False)

    def _named(self, matcher: Matcher, files: Any) -> str:
        """Return the name of a set of rules: values may be among them, so guessing is made slow."""
        rules = [[rule.name, rule.pattern, rule.distinct] for rule in matcher.rules]
        text = json.dumps([FORMAT, rules, list(matcher.allowed), getattr(files, "pattern", b"").__repr__()])
        return hashlib.scrypt(
            text.encode(), salt=bytes.fromhex(self._salt), n=1 << 14, r=8, p=1, dklen=12
        ).hex()
