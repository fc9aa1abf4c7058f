"""The gate of a restore: decides, while it is paused, whether its images can be loaded and its tree can
run.

Holds the record that a restore is compared with. A tree that it does not understand must not run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.base.text import plain
from holdfast.errors import RestoreFailed
from holdfast.runtime.sessions.session_options import CAPABILITIES
from holdfast.snapshots import record, snapshot_policy, verification
from holdfast.snapshots.link import CheckpointerFailed, CheckpointerLink, LinkLost
from holdfast.snapshots.record import RecordedTree, StateRecord
from holdfast.snapshots.snapshot_policy import ProcessPolicy, Violation
from holdfast.snapshots.verification import Verification

ALLOWED = ProcessPolicy.of(CAPABILITIES)


_OF_RIGHTS = frozenset({"credentials", "process"})
"""Kinds of deviations that a restore never causes: the user of a process and its privileges."""


class Gate:
    """The gate of one snapshot, for any number of concurrent restores. `name` is the snapshot's."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder

    @functools.cached_property
    def record(self) -> StateRecord | None:
        """The record of the freeze.

        Raises:
            SnapshotDamaged: the record cannot be read.
        """
        return record.read(self._folder)

    def follow(self, link: CheckpointerLink) -> Verification:
        """Follow a restore until it is complete, and return the result of the comparison.

        Raises:
            RestoreFailed: the tree has privileges beyond a session's; none of it ran, and it was killed.
            Refused, LinkLost: the checkpointer failed.
        """
        found = Verification()
        given: RecordedTree | None = None
        refusal: RestoreFailed | None = None
        try:
            for event in link.events():
                try:
                    match event["event"]:
                        case "images":
                            given = RecordedTree.model_validate(event["tree"])
                            self._judge(
                                [
                                    *snapshot_policy.judge(given, ALLOWED),
                                    *snapshot_policy.strange(event["strange"]),
                                ]
                            )
                            self._check_unaltered(given)
                            link.decide(json.dumps({"go": True, "files": self._files()}))
                        case "stopped" if given is not None:
                            running = RecordedTree.model_validate(event["tree"])
                            self._judge(snapshot_policy.judge_running(running, ALLOWED))
                            found = self._compare(given, running, event.get("files") or {})
                            link.decide(json.dumps({"go": True}))
                        case "done":
                            return found
                except (RestoreFailed, ValidationError, KeyError, TypeError) as error:
                    refusal = self._refusal(error)
                    link.decide("{}")
        except CheckpointerFailed:
            if refusal is None:
                raise
        except OSError as error:
            raise LinkLost(f"cannot continue: the checkpointer ended ({error.strerror or error})") from error
        if refusal is not None:
            raise refusal
        raise LinkLost("cannot continue: the checkpointer ended in the middle of an operation")

    def _judge(self, violations: list[Violation]) -> None:
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            raise RestoreFailed(
                f"cannot restore {self._name}: {plain(str(violations[0]), 300)}{more}",
                hint="its images were altered, or do not come from a session; nothing was run",
            )

    def _check_unaltered(self, given: RecordedTree) -> None:
        """Refuse changed privileges, even if a session is permitted to have them."""
        before = self.record
        altered = (
            [one for one in verification.images(before, given) if one.about in _OF_RIGHTS] if before else []
        )
        if altered:
            raise RestoreFailed(
                f"cannot restore {self._name}: {plain(str(altered[0]), 300)}",
                hint="its images were altered after the freeze; nothing was run",
            )

    def _refusal(self, error: Exception) -> RestoreFailed:
        if isinstance(error, RestoreFailed):
            return error
        return RestoreFailed(
            f"cannot restore {self._name}: its images cannot be checked ({plain(str(error), 200)})",
            hint="nothing was run",
        )

    def _files(self) -> list[str]:
        return [one.path for one in self.record.files if one.digest] if self.record is not None else []

    def _compare(self, given: RecordedTree, running: RecordedTree, files: Mapping[str, Any]) -> Verification:
        found = verification.restored(given, running)
        if self.record is None:
            found = found.plus(skipped=["the freeze: the snapshot was taken without a record"])
        else:
            contents = verification.contents(self.record, files)
            found = found.plus(contents.compared, contents.deviations, contents.skipped)
            found = found.plus(deviations=verification.images(self.record, given))
        return clean(found)


def clean(found: Verification) -> Verification:
    """Return a verification that is safe to show: names of processes and files come from the session."""
    return found.model_copy(
        update={
            "deviations": [one.model_copy(update={"text": plain(one.text, 300)}) for one in found.deviations],
            "skipped": [plain(one, 300) for one in limited(found.skipped)],
        }
    )


def limited(texts: Iterable[str], most: int = 20) -> list[str]:
    """Return the first `most` texts, and the number of the others."""
    every = list(texts)
    return every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]
