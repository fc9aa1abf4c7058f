"""Files of sandboxes by E2B's wire: of any size and name, watched through captures, and hostile ones."""

from __future__ import annotations

import gzip
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.integration.conftest import Cli
from tests.integration.file_wire import OCTETS, FileWire
from tests.integration.process_wire import end_of, framed
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

MIB = 1 << 20
SETUP = """
mkdir -p /tmp/hostile && cd /tmp/hostile || exit
mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero; ln -s nowhere broken
touch -d 9999-12-31 late; touch -d @-99999999999 early; touch $'line\\nbreak'; touch $'no\\xffutf8'
chown 12345:54321 late
"""


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def wire(server: Served, shared: Session) -> Iterator[FileWire]:
    found = FileWire(server, shared.id)
    yield found
    found.close()


def test_a_file_is_written_looked_at_moved_and_removed(wire: FileWire, shared: Session) -> None:
    assert wire.put("/tmp/life/a", b"abc").json() == [{"path": "/tmp/life/a", "name": "a", "type": "file"}]
    told = wire.ask("Stat", path="/tmp/life/a")["entry"]
    assert (told["size"], told["type"], told["permissions"]) == ("3", "FILE_TYPE_FILE", "-rw-r--r--")
    assert wire.ask("Move", source="/tmp/life/a", destination="/tmp/life/b/c")["entry"]["name"] == "c"
    assert wire.code("Stat", path="/tmp/life/a") == "not_found"
    assert wire.code("MakeDir", path="/tmp/life/b") == "already_exists"
    assert wire.code("MakeDir", path="/tmp/life/b/c") == "failed_precondition"
    assert wire.ask("MakeDir", path="/tmp/life/d/e")["entry"]["type"] == "FILE_TYPE_DIRECTORY"
    found = wire.ask("ListDir", path="/tmp/life", depth=2)["entries"]
    assert [each["path"].removeprefix("/tmp/life/") for each in found] == ["b", "b/c", "d", "d/e"]
    assert len(wire.ask("ListDir", path="/tmp/life", depth=0, unknown=[])["entries"]) == 2
    assert wire.ask("Remove", path="/tmp/life") == {}
    assert wire.ask("Remove", path="/tmp/life") == {}
    assert not shared.programs.run(["test", "-e", "/tmp/life"]).ok


def test_invalid_paths_are_refused(wire: FileWire) -> None:
    for path in ("", "\0", "/" + "x" * 5000):
        assert wire.code("Remove", path=path) == "invalid_argument"
        assert wire.get(path).status_code == 400
    assert wire.code("Remove") == "invalid_argument"
    assert wire.code("Move", source="/tmp/x") == "invalid_argument"
    assert wire.code("ListDir", path="/tmp", depth=-1) == "invalid_argument"
    assert wire.ask("ListDir") == wire.ask("ListDir", path=".")
    assert wire.code("ListDir", path="/etc/passwd") == "invalid_argument"
    assert wire.code("Unheard") == "unimplemented"
    assert wire.client.post("/files/compose", json={}).status_code == 501


def test_uploads_in_each_form(wire: FileWire, shared: Session) -> None:
    content = random.Random(5).randbytes(3 * MIB) + b"\r\n--edge\r\n"
    sent = wire.client.post(
        "/files", files=[("file", ("/tmp/up/ü 1", content)), ("file", ("/tmp/up/2", b""))]
    )
    assert [each["path"] for each in sent.json()] == ["/tmp/up/ü 1", "/tmp/up/2"]
    assert shared.files.read("/tmp/up/ü 1") == content
    sent = wire.client.post("/files", params={"path": "/tmp/up/3"}, files={"file": ("other", b"3")})
    assert sent.json()[0]["path"] == "/tmp/up/3"
    packed = gzip.compress(content[:MIB]) + gzip.compress(content[MIB:])  # two members are one file
    assert wire.put("/tmp/up/4", packed, {"content-encoding": "gzip"}).status_code == 200
    assert shared.files.read("/tmp/up/4") == content
    unpacked = wire.get("/tmp/up/4", {"accept-encoding": "gzip"})
    assert (unpacked.headers["content-encoding"], unpacked.content) == ("gzip", content)
    plain = wire.get("/tmp/up/4")
    assert ("content-encoding" in plain.headers, plain.content) == (False, content)
    assert wire.get("/tmp/up/4", {"range": "bytes=10-19"}).content == content[10:20]
    assert wire.get("/tmp/up/4", {"accept-encoding": "br, identity;q=0"}).status_code == 406
    assert wire.get("/tmp/up/2").content == wire.get("/tmp/up/2", {"accept-encoding": "gzip"}).content == b""
    assert wire.get("/tmp/up/4", {"if-none-match": plain.headers["etag"]}).status_code == 304


def test_uploads_that_are_refused_change_nothing(wire: FileWire, shared: Session) -> None:
    shared.files.write("/tmp/kept", b"before")
    big = bytes(20 * MIB)
    answers = {
        "no path": (
            wire.client.post("/files", content=b"x", headers=OCTETS),
            400,
        ),
        "no form": (wire.put("/tmp/kept", b"x", {"content-type": "text/plain"}), 415),
        "no gzip": (wire.put("/tmp/kept", b"x" * 100, {"content-encoding": "gzip"}), 400),
        "half": (wire.put("/tmp/kept", gzip.compress(big)[:-9], {"content-encoding": "gzip"}), 400),
        "br": (wire.put("/tmp/kept", b"x", {"content-encoding": "br"}), 415),
        "empty metadata": (wire.put("/tmp/kept", b"x", {"x-metadata-a": ""}), 400),
        "metadata": (wire.put("/tmp/kept", b"x", {"x-metadata-a": "b" * 5000}), 400),
        "folder": (wire.put("/tmp", b"x"), 400),
        "denied": (wire.put("/root/new", big, username="nobody"), 403),
        "stranger": (wire.put("/tmp/kept", b"x", username="stranger"), 400),
        "no user": (wire.put("/tmp/kept", b"x", username="a b"), 400),
        "below a file": (wire.put("/tmp/kept/x", b"x"), 409),
        "two": (
            wire.client.post(
                "/files", params={"path": "/tmp/one"}, files=[("file", ("a", b"")), ("file", ("b", b""))]
            ),
            400,
        ),
        "none": (wire.client.post("/files", files={"other": ("a", b"x")}), 400),
        "rest missing": (
            wire.put(
                "/tmp/kept",
                b'--e\r\nContent-Disposition: form-data; name="file"\r\n\r\nx',
                {"content-type": "multipart/form-data; boundary=e"},
            ),
            400,
        ),
    }
    assert {name: (answer.status_code, answer.json()["code"]) for name, (answer, _) in answers.items()} == {
        name: (status, status) for name, (_, status) in answers.items()
    }
    assert all(answer.json()["message"].startswith("cannot ") for answer, _ in answers.values())
    assert shared.files.read("/tmp/kept") == b"before"
    assert not [each for each in shared.files.list("/tmp") if each.name.endswith(".part")]


def test_a_body_of_any_size_is_not_kept_in_memory(wire: FileWire, server: Served, shared: Session) -> None:
    """Sent without a length, packed or not, and read back: the server grows by much less than that."""
    piece = random.Random(7).randbytes(MIB)
    whole = hashlib.sha256(piece * 240).hexdigest()
    wire.put("/tmp/large", piece)  # what is loaded with the first one
    before = server.resident()
    form = b'--e\r\nContent-Disposition: form-data; name="file"; filename="/tmp/large"\r\n\r\n'

    def parts() -> Iterator[bytes]:
        yield form
        for _ in range(240):
            yield piece
        yield b"\r\n--e--\r\n"

    kind = {"content-type": "multipart/form-data; boundary=e"}
    assert wire.client.post("/files", content=parts(), headers=kind).status_code == 200
    summed = hashlib.sha256()
    with wire.client.stream("GET", "/files", params={"path": "/tmp/large"}) as answer:
        for part in answer.iter_bytes():
            summed.update(part)
    assert summed.hexdigest() == whole
    bomb = gzip.compress(bytes(240 * MIB), 9)
    assert len(bomb) < MIB
    assert wire.put("/tmp/large", bomb, {"content-encoding": "gzip"}).status_code == 200
    assert shared.files.stat("/tmp/large").size == 240 * MIB
    assert server.resident() - before < 32 * MIB
    shared.files.remove("/tmp/large")


def test_signed_addresses_open_exactly_the_signed_file(wire: FileWire, shared: Session) -> None:
    shared.files.write("/tmp/signed", b"content")
    shared.files.write("/tmp/secret", b"secret")
    shared.programs.run(["chmod", "600", "/tmp/secret"])
    soon, get, post = int(time.time()) + 60, wire.anyone.get, wire.anyone.post
    assert get(wire.signed("/tmp/signed")).content == b"content"
    assert get(wire.signed("/tmp/signed", user="nobody", ends=soon)).content == b"content"
    assert get(wire.signed("/tmp/secret", user="nobody")).status_code == 403
    form = {"file": ("any", b"new")}
    assert post(wire.signed("/tmp/signed", "write"), files=form).json()[0]["path"] == "/tmp/signed"
    assert shared.files.read("/tmp/signed") == b"new"
    address, mine = wire.signed("/tmp/signed", ends=soon), wire.signed("/tmp/secret", user="nobody")
    refused = [
        address.replace("signed", "secret"),
        address.replace(str(soon), str(soon + 1)),
        address.partition("&signature_expiration")[0],
        address + "&username=nobody",
        wire.signed("/tmp/signed", ends=int(time.time()) - 2),
        wire.signed("/tmp/signed", "write"),
        wire.signed("/tmp/signed", of="0" * 12),
        mine.replace("username=nobody", "username=root"),
        mine.replace("username=nobody", "username="),
        # What is there twice is read by one, and signed by the other.
        address + "&path=/tmp/secret",
        "/files?path=/tmp/secret&" + address.partition("?")[2],
        mine + "&username=",
        mine + "&username=root",
        address + "&signature=x",
        "/files?path=/tmp/signed&signature=",
        "/files?path=/tmp/signed",
    ]
    assert [get(each).status_code for each in refused] == [401] * len(refused)
    assert post(address, files=form).status_code == 401
    # A header names no other user than the one who was signed for.
    as_root = {"authorization": "Basic cm9vdDo="}
    assert get(mine, headers=as_root).status_code == 403
    for path in ("/filesystem.Filesystem/Stat", "/process.Process/List", "/envs", "/files/compose"):
        answer = wire.anyone.post(f"{path}?{address.partition('?')[2]}", json={"path": "/"})
        assert answer.status_code == 401, path


def test_each_copy_of_a_sandbox_has_tokens_of_its_own(
    wire: FileWire, server: Served, shared_hf: Holdfast
) -> None:
    parent = shared_hf.new("parent")
    parent.files.write("/tmp/whose", b"of the parent")
    (copy,) = parent.fork(1, "copy")
    copy.files.write("/tmp/whose", b"of the copy")
    above, below = FileWire(server, parent.id), FileWire(server, copy.id)
    try:
        address = above.signed("/tmp/whose")
        assert above.anyone.get(address).content == b"of the parent"
        other = {"e2b-sandbox-id": copy.id}
        assert above.client.get("/files", params={"path": "/tmp/whose"}, headers=other).status_code == 401
        parent.remove()
        assert polling.until(lambda: above.anyone.get(address).status_code == 401, 60)
        gone = above.get("/tmp/whose")
        assert (gone.status_code, "was not found" in gone.json()["message"]) == (502, True)
        assert above.client.get("/health").status_code == 502
        assert below.get("/tmp/whose").content == b"of the copy"
        assert below.client.get("/health").status_code == 204
        copy.suspend()
        paused = below.client.post("/filesystem.Filesystem/Stat", json={"path": "/"})
        assert (paused.status_code, "was not found" in paused.json()["message"]) == (502, True)
        assert below.client.get("/health").status_code == 502
        assert shared_hf.session("copy").state == "suspended"
    finally:
        above.close()
        below.close()
        shared_hf.session("copy").remove()
        for each in shared_hf.snapshots():
            each.remove()


def test_metadata_stays_with_a_file(wire: FileWire, shared: Session, shared_hf: Holdfast) -> None:
    """Where E2B keeps it, so that programs of the sandbox read and change it; in copies as well."""
    said = {"x-metadata-Author": "Ada", "x-metadata-of": "a b=c"}
    (told,) = wire.put("/tmp/with", b"x", said).json()
    assert told["metadata"] == {"author": "Ada", "of": "a b=c"}
    read = "import os; print(os.getxattr('/tmp/with', 'user.e2b.author'))"
    assert shared.programs.run(["python3", "-c", read]).stdout == b"b'Ada'\n"
    change = (
        "import os; os.setxattr('/tmp/with', 'user.e2b.by', b'hand'); os.setxattr('/tmp/with', 'user.x', b'')"
    )
    assert shared.programs.run(["python3", "-c", change]).ok
    expected = {"author": "Ada", "of": "a b=c", "by": "hand"}
    assert wire.ask("Stat", path="/tmp/with")["entry"]["metadata"] == expected
    assert wire.ask("Move", source="/tmp/with", destination="/tmp/meta/f")["entry"]["metadata"] == expected
    assert [each["metadata"] for each in wire.ask("ListDir", path="/tmp/meta")["entries"]] == [expected]
    taken = shared.snapshot()
    copy = taken.restore("with-metadata")
    try:
        below = FileWire(wire.server, copy.id)
        assert below.ask("Stat", path="/tmp/meta/f")["entry"]["metadata"] == expected
        below.close()
    finally:
        copy.remove()
        taken.remove()
    wire.put("/tmp/meta/f", b"y")  # another file
    assert "metadata" not in wire.ask("Stat", path="/tmp/meta/f")["entry"]
    shared.files.remove("/tmp/meta", recursive=True)


def test_a_session_keeps_any_attributes_and_few_are_shown(wire: FileWire, shared: Session) -> None:
    hostile = r"""
import os
open("/tmp/many", "w").close()
os.setxattr("/tmp/many", "user.e2b.0", b"x" * 3000)
for name in ("user.e2b.\xff", "user.e2b.a b", "user.e2b.bytes"):
    os.setxattr("/tmp/many", name, b"\xff")
for number in range(5):
    try:
        os.setxattr("/tmp/many", f"user.e2b.large{number}", b"y" * 900)
    except OSError:
        pass
"""
    assert shared.programs.run(["python3", "-c", hostile]).ok
    found = wire.ask("Stat", path="/tmp/many")["entry"]["metadata"]
    assert found["0"] == "x" * 3000
    assert sum(map(len, (*found, *found.values()))) <= 4096
    shared.files.remove("/tmp/many")


def test_a_watch_reports_changes_and_continues_over_a_capture(wire: FileWire, shared: Session) -> None:
    shared.files.make_folder("/tmp/seen/sub", parents=True)
    with wire.watching(path="/tmp/seen", recursive=True, includeEntry=True) as messages:
        assert next(messages) == (False, {"start": {}})
        told = (each["filesystem"] for _, each in messages if "filesystem" in each)
        shared.files.write("/tmp/seen/sub/a", b"1")
        *made, wrote = (next(told) for _ in range(3))
        assert [each["type"] for each in made] == ["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD"]
        assert wrote["type"] == "EVENT_TYPE_WRITE"
        assert (wrote["name"], wrote["entry"]["path"], wrote["entry"]["size"]) == (
            "sub/a",
            "/tmp/seen/sub/a",
            "1",
        )
        taken = shared.snapshot()
        shared.programs.run(["rm", "/tmp/seen/sub/a"])
        assert next(told) == {"name": "sub/a", "type": "EVENT_TYPE_REMOVE"}
        taken.remove()
        shared.programs.run(["chmod", "700", "/tmp/seen/sub"])
        changed = next(told)
        assert (changed["type"], changed["entry"]["permissions"]) == ("EVENT_TYPE_CHMOD", "drwx------")
        assert next(messages) == (False, {"keepalive": {}})
        shared.files.write("/tmp/seen/b", b"")
        assert next(told)["type"] == "EVENT_TYPE_CREATE"
        shared.programs.run(["chmod", "600", "/tmp/seen/b"])
        assert next(told)["type"] == "EVENT_TYPE_CHMOD"
        shared.files.move("/tmp/seen/b", "/tmp/seen/c")
        assert [(each["name"], each["type"]) for each in (next(told), next(told))] == [
            ("b", "EVENT_TYPE_RENAME"),
            ("c", "EVENT_TYPE_CREATE"),
        ]
        shared.files.remove("/tmp/seen", recursive=True)
        rest = list(messages)
        assert rest[-1] == (True, {})


def test_a_watch_ends_with_its_time_and_says_so(wire: FileWire) -> None:
    with wire.watching(path="/tmp", milliseconds=300) as messages:
        found = list(messages)
    assert (found[0][1], found[-1][0]) == ({"start": {}}, True)
    assert found[-1][1]["error"]["code"] == "deadline_exceeded"
    for path, code in (("/tmp/no", "not_found"), ("/etc/passwd", "invalid_argument")):
        assert wire.code("CreateWatcher", path=path) == code


def test_a_watcher_that_is_asked(wire: FileWire, shared: Session) -> None:
    """It reports changes just before the question, and changes since the last one, a capture included."""
    shared.files.make_folder("/tmp/asked")
    id_ = wire.ask("CreateWatcher", path="/tmp/asked")["watcherId"]

    def names() -> list[tuple[str, str]]:
        found = wire.ask("GetWatcherEvents", watcherId=id_)["events"]
        return [(each["name"], each["type"].removeprefix("EVENT_TYPE_")) for each in found]

    def until(count: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        def enough() -> bool:
            found.extend(names())
            return len(found) >= count

        assert polling.until(enough, 60), found[:10]
        return found

    assert names() == []
    wire.put("/tmp/asked/a", b"1")
    assert until(3) == [("a", "CREATE"), ("a", "CHMOD"), ("a", "WRITE")]
    taken = shared.snapshot()
    wire.ask("Remove", path="/tmp/asked/a")
    assert until(1) == [("a", "REMOVE")]
    taken.remove()
    # More than the kernel keeps of events, and more than one answer has: nothing is lost.
    made = shared.programs.run(
        ["python3", "-c", "for n in range(17000): open(f'/tmp/asked/{n}', 'w').close()"]
    )
    assert made.ok
    first = names()
    assert len(first) <= 10_000
    told = first + until(17_000 - len(first))
    assert sorted(told) == sorted((str(each), "CREATE") for each in range(17_000))
    assert wire.code("GetWatcherEvents", watcherId="0" * 32) == "not_found"
    shared.files.remove("/tmp/asked", recursive=True)
    assert polling.until(lambda: (".", "REMOVE") in names(), 60)
    assert names() == []
    assert wire.ask("RemoveWatcher", watcherId=id_) == {}
    assert wire.code("RemoveWatcher", watcherId=id_) == "not_found"


def test_streams_and_watchers_of_one_sandbox_are_few(wire: FileWire, server: Served) -> None:
    """Their buffers are memory of the server: they are counted there, whatever the session allows."""

    def idle() -> bool:
        return server.metric('holdfast_calls{kind="waiting"}') == 0

    assert polling.until(idle, 60)  # the streams of earlier tests have ended
    request = framed({"path": "/tmp"})
    with ExitStack() as streams:
        open_ones = [streams.enter_context(wire.watching(path="/tmp")) for _ in range(5)]
        assert [next(each) for each in open_ones] == [(False, {"start": {}})] * 5
        kept = [wire.ask("CreateWatcher", path="/tmp")["watcherId"] for _ in range(3)]
        assert wire.code("CreateWatcher", path="/tmp") == "resource_exhausted"
        refused = wire.client.post(
            "/filesystem.Filesystem/WatchDir",
            content=request,
            headers={"content-type": "application/connect+json"},
        )
        told = end_of(refused)
        assert told["code"] == "resource_exhausted"
        assert "8 watches of the sandbox" in told["message"]
        wire.ask("RemoveWatcher", watcherId=kept.pop())
        kept.append(wire.ask("CreateWatcher", path="/tmp")["watcherId"])
    assert polling.until(idle, 60)
    kept += [wire.ask("CreateWatcher", path="/tmp")["watcherId"] for _ in range(5)]
    assert wire.code("CreateWatcher", path="/tmp") == "resource_exhausted"
    for each in kept:
        wire.ask("RemoveWatcher", watcherId=each)


def test_whatever_a_session_makes_of_its_files(wire: FileWire, server: Served, shared: Session) -> None:
    assert shared.programs.run(["bash", "-c", SETUP]).ok
    found = {each["name"]: each for each in wire.ask("ListDir", path="/tmp/hostile")["entries"]}
    assert set(found) == {
        "fifo", "loop", "zero", "broken", "late", "early", "line\nbreak", "no\ufffdutf8",
    }  # fmt: skip
    assert found["late"]["modifiedTime"].startswith("2262-04-11T")  # the latest that is kept
    assert found["early"]["modifiedTime"].endswith("Z")
    assert (found["late"]["owner"], found["late"]["group"]) == ("12345", "54321")
    assert (found["loop"]["type"], found["loop"]["isSymlink"]) == ("FILE_TYPE_SYMLINK", True)
    statuses = {"fifo": 400, "zero": 400, "loop": 409, "broken": 404}
    assert {name: wire.get(f"/tmp/hostile/{name}").status_code for name in statuses} == statuses
    assert wire.put("/tmp/hostile/fifo", b"x").status_code == 409
    assert wire.ask("Stat", path="/tmp/hostile/loop")["entry"]["permissions"] == "lrwxrwxrwx"
    deep = "/".join(["d"] * 300)
    assert shared.programs.run(["mkdir", "-p", f"/tmp/hostile/deep/{deep}"]).ok
    found_deep = wire.ask("ListDir", path="/tmp/hostile/deep", depth=2**32 - 1)["entries"]
    assert len(found_deep) == 300
    # Tables of names that are none, and endless: numbers are told instead.
    tables = (
        "mkfifo /etc/passwd",
        "ln -s /dev/zero /etc/passwd",
        "yes a:x:12345 | head -c 1000000 >/etc/passwd",
    )
    for table in tables:
        change = f"mv /etc/passwd /tmp/passwd; {table}"
        back = "rm /etc/passwd; mv /tmp/passwd /etc/passwd"
        assert shared.programs.run(["bash", "-c", change]).ok
        try:
            owner = wire.ask("Stat", path="/tmp/hostile/late")["entry"]["owner"]
        finally:
            assert shared.programs.run(["bash", "-c", back]).ok
        assert owner == ("a" if "yes" in table else "12345")
    shared.files.remove("/tmp/hostile", recursive=True)


def test_variables_of_the_sandbox_are_reported(wire: FileWire) -> None:
    found: Any = wire.client.get("/envs")
    assert (found.status_code, found.json()) == (200, {})
    assert wire.client.get("/metrics").status_code == 501
