"""A receiver can be the only command of a login: its source cannot make it do more than its purpose.

Each input of a source is refused in one line, or ends the connection; no trace of it remains.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.moving import move_wire
from holdfast.snapshots.bundle.keys import Keys

pytestmark = pytest.mark.thorough

DIGEST = f"sha256:{hashlib.sha256(b'part').hexdigest()}"


@pytest.fixture
def key(home: Home) -> str:
    """A key that the home trusts: its own."""
    return Keys(home).sending()[0].public


@pytest.fixture
def receive(hf: Holdfast, cli: Any) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that sends requests, or bytes, to a receiver, and returns its replies."""

    def send(*requests: dict[str, Any] | bytes) -> list[dict[str, Any]]:
        sent = b"".join(each if isinstance(each, bytes) else move_wire.line(each) for each in requests)
        done = subprocess.run(
            cli.command("receive"),
            env=cli.environment,
            input=sent,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        replies = io.BytesIO(done.stdout)
        move_wire.read_greeting(replies)
        assert (hf.sessions(), hf.snapshots()) == ([], [])
        return [json.loads(each) for each in replies]

    return send


def prepare(key: str, **changed: Any) -> dict[str, Any]:
    """Return a request that is accepted, with changes."""
    fields: dict[str, Any] = {"name": "work", "key": key, "actor": "person:ann", "options": {}}
    return {"do": "prepare", **fields, **changed}


def test_protocol_violations_end_the_connection(
    receive: Callable[..., list[dict[str, Any]]],
) -> None:
    for sent in (b"", b"\n", b"GET / HTTP/1.1\n\n", b"[]\n", b"{" * 2_000_000, b"\x00" * 5000 + b"\n"):
        assert receive(sent) == []


def test_requests_that_are_not_valid_are_refused(
    receive: Callable[..., list[dict[str, Any]]], key: str, tmp_path: Path
) -> None:
    """Each, without an end of the connection."""
    bad: list[dict[str, Any]] = [
        {},
        {"do": None},
        {"do": ["prepare"]},
        {"do": "__init__"},
        {"do": "answer"},
        {"do": "prepare"},
        prepare(key, name="../x"),
        prepare(key, name=["work"]),
        prepare(key, actor="\x1b[31m"),
        prepare(key, options=[]),
        prepare(key, options={"image": "other"}),
        prepare(key, options={"mounts": [f"{tmp_path}:/data"]}),
        prepare(key, options={"mounts": [{"source": "/", "target": "/data"}]}),
        prepare(key, options={"secrets": [{"name": "A", "hosts": ["a.example"]}]}),
        prepare(key, options={"privileged": True}),
        prepare("holdfast:" + base64.b64encode(b"x" * 32).decode()),
        {"do": "layers", "diff_ids": 7},
        {"do": "has", "digest": "sha256:../../x", "size": 1},
        {"do": "has", "digest": DIGEST, "size": "many"},
        {"do": "import", "source": "x"},
        {"do": "fetch", "reference": "-x", "bundle": DIGEST},
        {"do": "fetch", "reference": "127.0.0.1:1/a:b", "bundle": DIGEST, "plain_http": True},
        {"do": "start", "bundle": DIGEST, "attempt": "7", "name": "work"},
        {"do": "start", "bundle": [DIGEST], "attempt": "7", "name": "work"},
        {"do": "find"},
        {"do": "find", "attempt": "7", "name": "\x1b[2J"},
        {"do": "find", "attempt": "x" * 100_000, "name": "work"},
        {"do": "find", "attempt": {"a": 7}, "name": "work"},
    ]
    replies = receive(*bad, prepare(key))
    assert len(replies) == len(bad) + 1
    for request, reply in zip(bad, replies, strict=False):
        assert reply.keys() == {"error", "text", "hint"}, str(request)
        assert "\n" not in reply["text"], request
        assert "Traceback" not in reply["text"], request
    assert replies[-1] == {"ok": True}


def test_parts_that_do_not_match_are_reported_by_the_next_request(
    receive: Callable[..., list[dict[str, Any]]], home: Home
) -> None:
    def put(digest: str, data: bytes) -> list[dict[str, Any] | bytes]:
        return [{"do": "put", "digest": digest, "size": len(data), "bytes": len(data)}, data]

    there = {"do": "has", "digest": DIGEST, "size": 4}
    assert receive(*put(DIGEST, b"part"), there) == [{"ok": True, "has": True}]
    first, second = receive(*put(DIGEST, b"else"), *put("sha256:../../../x", b"part"), there, there)
    assert "does not match its digest" in first["text"]
    assert second == {"ok": True, "has": True}
    assert [path.name for path in (home.root / "downloads").iterdir()] == [DIGEST[7:]]


def test_an_index_that_lies_is_refused(receive: Callable[..., list[dict[str, Any]]], key: str) -> None:
    """The file that it names was not sent, or is not a bundle."""

    def imported(index: bytes) -> dict[str, Any]:
        asked = {"do": "import", "bytes": len(index), "source": "x\x1b[2J"}
        return receive(prepare(key), move_wire.line(asked) + index)[-1]

    unsent = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": DIGEST, "size": 4}
    for index in (b"", b"{}", b"[" * 5000, json.dumps({"schemaVersion": 2, "manifests": [unsent]}).encode()):
        reply = imported(index)
        assert reply["error"] == "bundle_refused", reply
        assert "\x1b" not in reply["text"]
    huge = move_wire.line({"do": "import", "bytes": 1 << 40, "source": "x"})
    assert receive(prepare(key), huge) == [{"ok": True}]


def test_a_session_that_perhaps_runs_at_its_source_is_never_started(
    hf: Holdfast, receive: Callable[..., list[dict[str, Any]]], key: str
) -> None:
    """Once the receiver has said that it does not run here, it will not."""
    find = {"do": "find", "attempt": "7", "name": "work"}
    assert receive(prepare(key), find) == [{"ok": True}, {"ok": True, "state": "absent"}]
    assert receive(find, find) == [{"ok": True, "state": "absent"}] * 2
    (kept,) = hf.store.sessions(removed=True)  # one, however often it is asked
    assert kept.details.arrival is not None
    assert kept.details.arrival.state == "given_up"
    more = [{**find, "attempt": f"{number}"} for number in range(20, 30)]
    assert [reply.get("error") for reply in receive(*more)] == [None, *["invalid_argument"] * 9]
    assert len(hf.store.sessions(removed=True)) == 2  # one for each connection


def test_a_terminal_is_not_a_source(cli: Any, tmp_path: Path) -> None:
    command = ["script", "-qec", " ".join(cli.command("receive")), "/dev/null"]
    done = subprocess.run(
        command, env=cli.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "cannot receive from a terminal" in done.stdout
    assert done.returncode != 0
