"""Files of sessions over a URL: copied in and out, and watched, as in process."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Over, Served, serving

from holdfast import AsyncHoldfast, Patience, RemoteHoldfast, RemoteSession, Session
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, ServerUnavailable, SessionFileDenied, SessionFileNotFound
from holdfast.runtime.files.copied import Copied

ODD = os.fsdecode(b"odd\xff")


@pytest.fixture
def session(remote: RemoteHoldfast) -> RemoteSession:
    return remote.session("shared")


def listed(root: Path) -> dict[str, tuple[int, int | str]]:
    """Return the content of a folder: modes, and times or targets."""
    found: dict[str, tuple[int, int | str]] = {}
    for path in root.rglob("*"):
        told = path.lstat()
        value: int | str = str(path.readlink()) if path.is_symlink() else told.st_mtime_ns
        found[str(path.relative_to(root))] = (told.st_mode, 0 if path.is_dir() else value)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / ODD).write_bytes(bytes(range(256)) * 20_000)
    (source / "tool").write_text("#!/bin/sh\n")
    (source / "tool").chmod(0o750)
    (source / "link").symlink_to("tool")
    (source / "deep").chmod(0o700)
    return source


def test_a_signed_address_opens_one_file_without_a_token(
    session: RemoteSession, shared: Session, server: Served
) -> None:
    """For reading, or for writing, as one user, until it ends; altered, it opens nothing."""
    shared.files.write("/srv/told", b"what it says")

    def ask(url: str, method: str = "GET", **more: Any) -> httpx.Response:
        parts = urlsplit(url)
        assert parts.netloc.endswith(f".localhost:{server.port}")
        place = f"{server.url}{parts.path}?{parts.query}"
        headers = {"host": parts.netloc} | more.pop("headers", {})
        return httpx.request(method, place, headers=headers, trust_env=False, timeout=60, **more)

    read = session.files.address("/srv/told")
    assert ask(read).content == b"what it says"
    write = session.files.address("/srv/made", operation="write")
    made = ask(write, "POST", content=b"by a stranger", headers={"content-type": "application/octet-stream"})
    assert made.is_success
    assert shared.files.read("/srv/made") == b"by a stranger"
    octets = {"content-type": "application/octet-stream"}
    refused = {
        "to write by one for reading": ask(read, "POST", content=b"x", headers=octets),
        "to read by one for writing": ask(write),
        "another file": ask(read.replace("told", "made")),
        "another user": ask(read.replace("username=", "username=nobody")),
        "for longer": ask(re.sub(r"(signature_expiration=)\d+", r"\g<1>9999999999", read)),
        "without its signature": ask(re.sub(r"&signature=[^&]*", "", read)),
        "a second path beside it": ask(f"{read}&path=%2Fetc%2Fshadow"),
        "another session": ask(read.replace(shared.id, "a" * 12)),
        "another path of the server": ask(read.replace("/files?", "/v1/sessions?")),
        "the list of a folder": ask(read.replace("/files?", f"/v1/sessions/{shared.id}/files/list?")),
    }
    assert {why: answer.status_code for why, answer in refused.items() if answer.status_code < 400} == {}
    assert shared.files.read("/srv/told") == b"what it says"
    short = session.files.address("/srv/told", seconds=1)
    assert polling.until(lambda: ask(short).status_code == 401, 60, 0.2)
    closed = session.files.as_user("nobody").address("/etc/shadow")
    assert ask(closed).status_code in (403, 401)
    for wrong in ("told", "/srv/../etc/shadow", "~"):
        with pytest.raises(InvalidArgument, match="must be absolute"):
            session.files.address(wrong)


@pytest.mark.parametrize("at", ["/srv/here", "/srv/by/a/url"])
def test_files_are_looked_for_changed_and_written_at_once(
    session: RemoteSession, shared: Session, at: str
) -> None:
    """In process and over a URL the same, with the rights of the user whose files these are."""
    files: Any = session.files if at.startswith("/srv/by") else shared.files
    files.make_folder(f"{at}/src", parents=True)
    assert files.write_many({f"{at}/src/a.py": "x = 1\n", f"{at}/src/b.py": b"y = 2\nx = 3\n"}) == 2
    assert files.exists(f"{at}/src/a.py")
    assert not files.exists(f"{at}/src/none")
    assert not files.exists(f"{at}/src/a.py/none")
    assert [(each.path, each.kind, each.size) for each in files.find(at, name="*.py")] == [
        (f"{at}/src/a.py", "file", 6),
        (f"{at}/src/b.py", "file", 12),
    ]
    lines = [(each.path, each.line, each.text) for each in files.find(at, containing="x = ")]
    assert lines == [(f"{at}/src/a.py", 1, "x = 1"), (f"{at}/src/b.py", 2, "x = 3")]
    assert len(files.find(at, most=1)) == 1
    assert files.replace(f"{at}/src/b.py", "x = 3", "x = 4") == 1
    assert files.replace(f"{at}/src/b.py", "x = 3", "") == 0
    files.chmod(f"{at}/src/b.py", 0o700)
    assert files.stat(f"{at}/src/b.py").mode == 0o700
    assert files.read(f"{at}/src/b.py") == b"y = 2\nx = 4\n"
    large = {f"{at}/{number}": bytes([number]) * (3 << 20) for number in range(3)} | {f"{at}/e": b""}
    assert files.write_many(large) == 4
    assert [files.stat(path).size for path in large] == [3 << 20] * 3 + [0]
    shared.exec(f"ln -s /etc/shadow {at}/way; ln -s {at} {at}/loop; mkfifo {at}/pipe; chmod 777 {at}")
    assert "root:" not in str(files.find(at, containing="root:"))
    nobody = files.as_user("nobody")
    denied: list[Callable[[], object]] = [
        lambda: nobody.chmod(f"{at}/way", 0o666),
        lambda: nobody.replace(f"{at}/way", "root", "toor"),
        lambda: nobody.replace(f"{at}/src/a.py", "x", "y"),
        lambda: nobody.write_many({f"{at}/src/new": "x"}),
    ]
    for refused in denied:
        with pytest.raises(SessionFileDenied):
            refused()
    assert nobody.find(at, name="b.py", containing="x") == []
    mistakes: list[Callable[[], object]] = [
        lambda: files.chmod(f"{at}/e", 0o4755),
        lambda: files.replace(f"{at}/e", "", "x"),
        lambda: files.find(at, most=0),
        lambda: files.find(at, containing="two\nlines"),
        lambda: files.find(at, name=""),
    ]
    for wrong in mistakes:
        with pytest.raises(InvalidArgument):
            wrong()
    with pytest.raises(SessionFileNotFound):
        files.find(f"{at}/none")
    assert shared.exec("stat -c %a /etc/shadow").text.strip() in ("640", "600", "0")


def test_trees_go_in_and_out(session: RemoteSession, shared: Session, tree: Path, tmp_path: Path) -> None:
    counts: list[int] = []
    os.mkfifo(tree / "pipe")
    here = shared.files.upload(tree, "/srv/here")
    there = session.files.upload(tree, "/srv/there", report=lambda made: counts.append(made.bytes))
    assert there == here
    assert counts
    assert set(there.left_out) == {str(tree / "pipe")}
    (tree / "pipe").unlink()
    shared.exec("mkfifo /srv/there/fifo; ln -s /etc /srv/there/out")
    expected = shared.files.download("/srv/there", tmp_path / "expected")
    found = session.files.download("/srv/there", tmp_path / "found")
    assert listed(tmp_path / "found") == listed(tmp_path / "expected") == listed(tree)
    assert (tmp_path / "found" / "deep" / "er" / ODD).read_bytes() == bytes(range(256)) * 20_000
    assert (found.files, found.folders, found.links, found.bytes, found.changed) == (
        expected.files,
        expected.folders,
        expected.links,
        expected.bytes,
        [],
    )
    assert "/srv/there/fifo" in found.left_out
    assert len(found.left_out) == len(expected.left_out) == 2
    shared.exec("rm -r /srv/there /srv/here")


def test_files_go_in_and_out(session: RemoteSession, shared: Session, tree: Path, tmp_path: Path) -> None:
    assert session.files.upload(tree / "tool", "/srv/named").files == 1
    told = shared.files.stat("/srv/named")
    assert (told.mode, told.mtime_ns) == (0o750, (tree / "tool").stat().st_mtime_ns)
    assert session.files.download("/srv/named", tmp_path / "back").bytes == 10
    assert (tmp_path / "back").stat().st_mtime_ns == told.mtime_ns
    session.files.as_user("nobody").upload(tree / "tool", "/tmp/of-nobody")
    assert shared.files.stat("/tmp/of-nobody").uid == 65534
    for path in ("/srv/missing/tool", "/srv/missing/deep/tool"):
        with pytest.raises(SessionFileNotFound):
            session.files.upload(tree / "tool", path)
        with pytest.raises(SessionFileNotFound):
            session.files.upload(tree, path)
    with pytest.raises(SessionFileNotFound):
        session.files.download("/srv/missing", tmp_path / "missing")
    with pytest.raises(InvalidArgument, match="that is a folder"):
        session.files.upload(tree / "tool", "/srv/")
    with pytest.raises(FileNotFoundError):
        session.files.upload(tree / "nothing", "/srv/nothing")
    assert not (tmp_path / "missing").exists()
    session.files.upload(tree / "tool", "/at-the-top")
    assert shared.exec("rm /srv/named /tmp/of-nobody /at-the-top").ok


def test_a_file_without_a_size_is_read_to_its_end(
    session: RemoteSession, shared: Session, tmp_path: Path
) -> None:
    """Files of proc(5) claim to be empty, and some refuse to be read in large pieces."""
    path = "/proc/sys/kernel/random/boot_id"
    booted = Path(path).read_bytes()
    assert session.files.read(path) == shared.files.read(path) == booted
    shared.files.download(path, tmp_path / "booted")
    session.files.download(path, tmp_path / "booted-over-url")
    assert {each.read_bytes() for each in tmp_path.iterdir()} == {booted}
    assert shared.files.read("/proc/kallsyms") == session.files.read("/proc/kallsyms")


def test_a_watch(session: RemoteSession, shared: Session) -> None:
    shared.exec("mkdir /srv/watched")
    with session.files.watch("/srv/watched", recursive=True) as changes:
        assert (changes.path, changes.ended) == ("/srv/watched", False)
        found = iter(changes)
        shared.exec("mkdir /srv/watched/in")
        seen = next(found)
        assert (seen.kind, seen.path, seen.file and seen.file.kind) == (
            "created",
            "/srv/watched/in",
            "folder",
        )
        shared.exec("echo x > /srv/watched/in/file")
        seen = next(found)
        assert (seen.kind, seen.path) == ("created", "/srv/watched/in/file")
        assert seen.file
        assert (seen.file.kind, seen.file.mode) == ("file", 0o644)
        shared.exec("rm -r /srv/watched")
        assert list(found)[-1].kind == "removed"
        assert changes.ended
    with session.files.watch("/srv", timeout=0.2) as changes:
        assert (list(changes), changes.ended) == ([], False)
    assert list(changes) == []
    patience = Patience()
    with session.files.watch("/srv", patience=patience) as changes:
        threading.Timer(0.2, patience.end).start()
        assert (list(changes), changes.ended) == ([], False)
    with pytest.raises(SessionFileNotFound):
        session.files.watch("/srv/missing")


def test_a_watch_whose_server_goes_says_so(
    shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home
) -> None:
    """Changes until a new server takes its place are unknown, and are not silently missed."""
    with serving(make_cli(shared_home), shared_home) as first:
        client = RemoteHoldfast(first.url, token=first.token)
        changes = client.session("shared").files.watch("/srv")
        port = str(first.port)
    with (
        serving(make_cli(shared_home), shared_home, "--listen", port),
        pytest.raises(ServerUnavailable, match="changes since then are not known"),
    ):
        list(changes)
    changes.close()
    client.close()


def test_async(server: Served, shared: Session, tree: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as controller:
            files = (await controller.session("shared")).files
            await files.upload(tree, "/srv/async")
            async with await files.watch("/srv/async") as changes:
                await files.write("/srv/async/new", b"1")
                async for change in changes:
                    assert change.path == "/srv/async/new"
                    break
            await files.remove("/srv/async/new")
            made = await asyncio.gather(
                *(files.download("/srv/async", tmp_path / f"copy{number}") for number in range(5))
            )
            assert {each.files for each in made} == {2}
            await files.write("/srv/async/large", bytes(200_000_000))
            loop, begun = asyncio.get_running_loop(), asyncio.Event()

            def report(_: Copied) -> None:
                loop.call_soon_threadsafe(begun.set)

            copying = asyncio.create_task(
                files.download("/srv/async/large", tmp_path / "large", report=report)
            )
            await begun.wait()
            copying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await copying
            await files.remove("/srv/async", recursive=True)

    asyncio.run(main())
    assert listed(tmp_path / "copy4") == listed(tree)
    assert not (tmp_path / "large").exists()


def test_the_command_line(server: Served, shared: Session, tree: Path, tmp_path: Path) -> None:
    over = Over(server, tmp_path / "other")
    over("cp", "-r", str(tree), "shared:/srv/over")
    over("cp", "-r", "shared:/srv/over", str(tmp_path / "back"))
    assert listed(tmp_path / "back") == listed(tree)
    over("cp", "shared:/srv/over/tool", str(tmp_path / "tool"))
    assert (tmp_path / "tool").read_text() == "#!/bin/sh\n"
    assert over("watch", "shared", "/srv/over", "--for", "0.3s", "--count", "1", code=124)
    assert "no such file" in over("cp", "shared:/srv/missing", str(tmp_path / "x"), code=1)
    shared.exec("rm -r /srv/over")
