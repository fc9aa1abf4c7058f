"""The gate's answer to a checkpointer that asks whether images can be loaded, and their tree run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import RestoreFailed
from holdfast.runtime.verification.gate import Gate
from holdfast.snapshots import record
from holdfast.snapshots.link import CheckpointerLink
from holdfast.snapshots.record import RecordedProcess, RecordedThread, RecordedTree, StateRecord
from holdfast.snapshots.snapshot_policy import CAPABILITIES

CHOWN, SYS_ADMIN = (1 << CAPABILITIES.index(name) for name in ("CHOWN", "SYS_ADMIN"))
YES = json.dumps({"go": True})


class Asking:
    """A checkpointer that asks these questions, and obeys the answers."""

    def __init__(self, *questions: Mapping[str, Any]) -> None:
        self._questions = questions
        self.answers: list[Any] = []

    def events(self) -> Iterator[Mapping[str, Any]]:
        for question in self._questions:
            yield question
            if self.answers and not self.answers[-1].get("go"):
                return
        yield {"event": "done"}

    def decide(self, word: str) -> None:
        self.answers.append(json.loads(word))


def thread(**changed: Any) -> RecordedThread:
    sets = dict.fromkeys(("bounding", "permitted", "effective"), CHOWN)
    others = {"inheritable": 0, "ambient": 0, "no_new_privs": False, "seccomp": 2, "filters": 1}
    ids = {"uids": (0, 0, 0, 0), "gids": (0, 0, 0, 0)}
    return RecordedThread(**{"tid": 301, **ids, **sets, **others, **changed})


def tree(*, init: bool = False, **changed: Any) -> RecordedTree:
    one = RecordedProcess(
        pid=301, ppid=0, pgid=301, sid=301, state="alive", name="sh", threads=[thread(**changed)]
    )
    return RecordedTree(processes=[one], init=thread() if init else None)


def images(given: RecordedTree | None = None, *strange: str) -> dict[str, Any]:
    return {"event": "images", "tree": (given or tree()).model_dump(), "strange": list(strange)}


def stopped(running: RecordedTree | None = None) -> dict[str, Any]:
    return {"event": "stopped", "tree": (running or tree(init=True)).model_dump(), "files": {}}


def answers(folder: Path, *questions: Mapping[str, Any]) -> tuple[list[Any], str]:
    """Return the answer, and the reason if the restore is refused."""
    asking = Asking(*questions)
    try:
        Gate("taken", folder).follow(cast("CheckpointerLink", asking))
    except RestoreFailed as error:
        return asking.answers, f"{error}; {error.hint}"
    return asking.answers, ""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of a snapshot with the record of one process."""
    record.write(tmp_path, StateRecord(tree=tree()))
    return tmp_path


def test_a_tree_with_a_sessions_rights_runs(kept: Path) -> None:
    found, refused = answers(kept, images(), stopped())
    assert refused == ""
    assert [one["go"] for one in found] == [True, True]


def test_images_that_ask_for_more_are_not_loaded(kept: Path) -> None:
    """Rights beyond a session's, and whatever else the checkpointer finds strange."""
    found, refused = answers(kept, images(tree(effective=CHOWN | SYS_ADMIN)))
    assert (found, "more effective capabilities than a session: SYS_ADMIN" in refused) == ([{}], True)
    found, refused = answers(kept, images(tree(), "has a raw socket"))
    assert (found, "has a raw socket" in refused) == ([{}], True)


@pytest.mark.parametrize("changed", [{"effective": 0}, {"uids": (7, 7, 7, 7)}, {"no_new_privs": True}])
def test_images_with_other_rights_than_at_the_freeze_are_not_loaded(
    kept: Path, changed: dict[str, Any]
) -> None:
    """Even if a session is allowed to have them: someone altered them."""
    found, refused = answers(kept, images(tree(**changed)))
    assert (found, "altered after the freeze" in refused) == ([{}], True)


def test_a_tree_that_has_more_does_not_run(kept: Path) -> None:
    """Whatever its images said; and without a first process that bounds it."""
    for running, why in (
        (tree(init=True, permitted=CHOWN | SYS_ADMIN), "more permitted capabilities than a session"),
        (tree(), "is gone"),
    ):
        found, refused = answers(kept, images(), stopped(running))
        assert ([one.get("go") for one in found], why in refused) == ([True, None], True), refused


def test_unknown_requests_are_refused(kept: Path) -> None:
    """Another form, a part that is missing, and a tree before its images."""
    for question in (
        {"event": "images"},
        {"event": "images", "tree": tree().model_dump()},
        {"event": "images", "tree": {"processes": "none"}, "strange": []},
        {"event": "images", "tree": tree().model_dump(), "strange": 7},
    ):
        found, refused = answers(kept, question)
        assert (found, "cannot be checked" in refused) == ([{}], True), question
    assert answers(kept, stopped())[0] == []
