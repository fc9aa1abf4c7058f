"""Keys open what they are made for, until they are revoked or expire; their text is not kept."""

from __future__ import annotations

import hmac
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.errors import InvalidArgument
from holdfast.runtime.access import access_keys, permissions
from holdfast.runtime.access.access_keys import FILE, LINK, AccessKeys
from holdfast.runtime.store.beside_database import BesideDatabase


def test_a_key_opens_until_it_is_revoked(tmp_path: Path) -> None:
    """Another process that has the file open sees it at its next look."""
    keys, server = AccessKeys(tmp_path), AccessKeys(tmp_path)
    made, text = keys.create("ci", ["member"])
    found = server.opened_by(text.encode())
    assert found is not None
    assert (found.id, found.actor, found.scopes) == (
        made.id,
        "agent:ci",
        frozenset(permissions.ROLES["member"]),
    )
    keys.revoke("ci")
    assert server.opened_by(text.encode()) is None
    assert not server.is_valid(found)


def test_what_is_remembered_counts_while_the_file_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look asks no database; a revocation is seen by the next one, however soon it comes."""
    keys, server = AccessKeys(tmp_path), AccessKeys(tmp_path)
    _, text = keys.create("ci", ["member"])
    assert server.opened_by(text.encode()) is not None  # notes its use, which changes the file
    read: list[None] = []
    reading = BesideDatabase.reading

    def counted(self: BesideDatabase) -> Any:
        read.append(None)
        return reading(self)

    monkeypatch.setattr(BesideDatabase, "reading", counted)
    assert polling.until(lambda: server._file.stamp() is not None, 30)
    assert server.opened_by(text.encode()) is not None
    read.clear()
    for _ in range(5):
        assert server.opened_by(text.encode()) is not None
    assert read == []
    keys.revoke("ci")
    assert server.opened_by(text.encode()) is None
    # While the file is too new to show each change, everything is read.
    for _ in range(20):
        made, text = keys.create("ci", ["viewer"])
        assert server.opened_by(text.encode()) is not None
        assert server.valid(made.id) is not None
        keys.revoke("ci")
        assert server.opened_by(text.encode()) is None
        assert server.valid(made.id) is None


def test_a_wrong_secret_takes_the_same_steps_wherever_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets are compared by digests of one length, in constant time; nothing else looks at them.

    Counted are the lines that run and the comparisons that are made, so the time of a busy machine does not
    matter. Whether an id exists is not secret.
    """
    keys = AccessKeys(tmp_path)
    made, text = keys.create("ci", ["member"])
    secret = text.split("_", 2)[2]
    compared: list[tuple[int, int]] = []

    def comparing(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(access_keys, "hmac", SimpleNamespace(compare_digest=comparing))
    other = "A" if secret[0] != "A" else "B"
    wrong = {
        "first": other + secret[1:],
        "middle": secret[:20] + other + secret[21:]
        if secret[20] != other
        else secret[:20] + "-" + secret[21:],
        "last": secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        "all": "".join("A" if each != "A" else "B" for each in secret),
    }
    assert polling.until(lambda: keys._file.stamp() is not None, 30)
    assert keys.opened_by(f"hf_{made.id}_{wrong['all']}".encode()) is None  # from here on it is remembered
    steps = {}
    for name, each in wrong.items():
        compared.clear()
        steps[name] = _lines_of(partial(keys.opened_by, f"hf_{made.id}_{each}".encode()))
        assert compared == [(64, 64)], name
    assert len(set(steps.values())) == 1, steps
    assert min(steps.values()) > 10


def _lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of ours run in it."""
    count = 0

    def traced(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith("access_keys.py"):
            return None
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_key_expires(tmp_path: Path) -> None:
    """At its time, without anybody's doing."""
    keys = AccessKeys(tmp_path)
    _, text = keys.create("ci", ["viewer"], seconds=0.05)
    time.sleep(0.06)
    assert keys.opened_by(text.encode()) is None
    assert [each.state(time.time()) for each in keys.list()] == ["expired"]


def test_nothing_but_the_whole_text_opens(tmp_path: Path) -> None:
    """Neither an id, nor a part, nor the secret of another key."""
    keys = AccessKeys(tmp_path)
    one, first = keys.create("one", ["admin"])
    _, second = keys.create("two", ["viewer"])
    mixed = (
        f"hf_{one.id}_{second.rpartition('_')[2]}" if second.count("_") == 2 else f"hf_{one.id}_{'A' * 43}"
    )
    for text in (
        "",
        "hf_",
        one.id,
        first[:-1],
        first + "A",
        first.upper(),
        mixed,
        f"hf_{one.id}_",
        f" {first}",
    ):
        assert keys.opened_by(text.encode()) is None, text
    assert keys.opened_by(b"\xff" * 60) is None


def test_the_text_is_not_kept(tmp_path: Path) -> None:
    """A copy of the home opens nothing; and no one but its owner reads the file."""
    _, text = AccessKeys(tmp_path).create("ci", ["member"])
    kept = (tmp_path / FILE).read_bytes()
    assert text.split("_", 2)[2].encode() not in kept
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_a_home_without_keys_has_no_file(tmp_path: Path) -> None:
    """Looking makes none."""
    keys = AccessKeys(tmp_path)
    assert (keys.list(), keys.opened_by(b"hf_0123456789ab_" + b"A" * 43)) == ([], None)
    assert not (tmp_path / FILE).exists()


def test_a_name_is_that_of_one_valid_key(tmp_path: Path) -> None:
    """So an actor in the journal is one user's; it is free again once its key opens nothing."""
    keys = AccessKeys(tmp_path)
    keys.create("ci", ["member"])
    with pytest.raises(InvalidArgument, match="there is one that is valid"):
        keys.create("ci", ["viewer"])
    keys.revoke("ci")
    again, _ = keys.create("ci", ["viewer"])
    assert [(each.name, each.state(time.time())) for each in keys.list()] == [
        ("ci", "revoked"),
        ("ci", "valid"),
    ]
    assert keys.revoke("ci").id == again.id


@pytest.mark.parametrize("name", ["", "Ada", "a/b", "a:b", "-a", "a" * 33, "a b", "ä"])
def test_names_that_would_be_something_else_in_an_actor(name: str, tmp_path: Path) -> None:
    """They are refused; a slash would make one key's actor a part of another's."""
    with pytest.raises(InvalidArgument):
        AccessKeys(tmp_path).create(name, ["member"])


@pytest.mark.parametrize("scope", ["", "root", "files", "files:", "*", "*:*", "files:delete"])
def test_invalid_scopes_are_refused(scope: str, tmp_path: Path) -> None:
    """A typing error must not make a key that allows less than was meant, or more."""
    with pytest.raises(InvalidArgument, match="neither a role nor a scope"):
        AccessKeys(tmp_path).create("ci", [scope])


def test_a_wildcard_is_all_of_a_thing() -> None:
    """And nothing of others."""
    assert permissions.expanded(["files:*"]) == {"files:read", "files:write"}


def test_each_role_includes_the_one_before() -> None:
    """Only the last one gives a session folders of the machine."""
    roles = [frozenset(scopes) for scopes in permissions.ROLES.values()]
    assert all(one < other for one, other in pairwise(roles))
    assert ["host:mounts" in each for each in roles] == [False, False, False, True]


@pytest.mark.parametrize(
    ("told", "actor"),
    [
        (None, "agent:ci"),
        ("agent:ci", "agent:ci"),
        ("agent:ci/7", "agent:ci/7"),
        ("agent:coder/7", "agent:ci/coder/7"),
        ("person:ada", "agent:ci/ada"),
        ("system", "agent:ci"),
        ("agent:ci2", "agent:ci/ci2"),
        ("agent:" + "x" * 80, "agent:ci/" + "x" * 61),
    ],
)
def test_nobody_acts_in_the_name_of_another(told: str | None, actor: str, tmp_path: Path) -> None:
    """A caller can say more than its key does, and nothing else."""
    key, _ = AccessKeys(tmp_path).create("ci", ["member"])
    assert key.acts_as(told) == actor


def test_a_key_of_e2b_is_a_second_spelling(tmp_path: Path) -> None:
    """40 digits after `e2b_`, which their clients check; it is no weaker in any other way."""
    keys = AccessKeys(tmp_path)
    made, text = keys.create("ci", ["member"], of_e2b=True)
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", text)
    found = keys.opened_by(text.encode())
    assert found is not None
    assert (found.id, found.is_of_e2b, found.shown) == (made.id, True, f"e2b_{made.id}…{text[-4:]}")
    for other in (text[:-1], text[:-1] + "g", text.upper(), f"hf_{made.id}_{text[16:]}", text[4:]):
        assert keys.opened_by(other.encode()) is None, other
    assert text[16:].encode() not in (tmp_path / FILE).read_bytes()
    keys.revoke("ci")
    assert keys.opened_by(text.encode()) is None


def test_a_link_is_a_key_of_pages_alone_and_its_visits_are_counted(tmp_path: Path) -> None:
    """As `Authorization` it opens nothing; anyone who follows it is a person."""
    keys = AccessKeys(tmp_path)
    made, text = keys.create("guest-1a2b", ["sessions:read"], kind=LINK, session="a" * 12)
    _, other = keys.create("ci", ["member"])
    assert keys.opened_by(text.encode()) is None
    assert keys.visited(other.encode()) is None
    assert keys.visited(text[:-1].encode()) is None
    for _ in range(3):
        found = keys.visited(text.encode())
        assert found is not None
        assert found.actor == "person:guest-1a2b"
    assert {each.name: each.visits for each in keys.list()} == {"guest-1a2b": 3, "ci": 0}
    keys.revoke(made.id)
    assert keys.visited(text.encode()) is None
