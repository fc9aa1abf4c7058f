"""E2B's synchronous client handles files: read, write, list, watch, and signed addresses."""

import io
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from e2b import InvalidArgumentException, NotFoundException, Sandbox, SandboxException
from e2b.sandbox.filesystem.filesystem import FileType
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType

try:
    from e2b import FileNotFoundException
except ImportError:  # 2.25 has one exception for all that is not found
    FileNotFoundException = NotFoundException
VERSION = tuple(map(int, version("e2b").split(".")[:2]))
BIG = random.Random(20).randbytes(20 << 20)
checks = 0


def check(found: object, why: str) -> None:
    global checks
    assert found, why
    checks += 1


def refused(work: Callable[[], object], *kinds: type[BaseException]) -> None:
    """The call raises one of these."""
    global checks
    try:
        found = work()
    except kinds:
        checks += 1
    else:
        raise AssertionError(f"not refused: {found!r}")


def written_and_read(files: Any) -> None:
    made = files.write("/tmp/new/folder/a b ü 文.txt", "héllo\n")
    check((made.name, made.path) == ("a b ü 文.txt", "/tmp/new/folder/a b ü 文.txt"), "what was written")
    check(files.read("/tmp/new/folder/a b ü 文.txt") == "héllo\n", "text")
    check(files.read("/tmp/new/folder/a b ü 文.txt", gzip=True) == "héllo\n", "packed text")
    content = bytes(range(256)) * 100
    files.write("/tmp/bytes", content)
    check(files.read("/tmp/bytes", "bytes") == content, "bytes")
    check(b"".join(files.read("/tmp/bytes", "stream")) == content, "a stream")
    files.write("/tmp/bytes", b"")
    check(files.read("/tmp/bytes", "bytes") == b"", "an empty file in place of another")
    files.write("/tmp/io", io.BytesIO(content))
    check(files.read("/tmp/io", "bytes") == content, "from a file")
    files.write("/tmp/io", io.StringIO("ünicode"))
    check(files.read("/tmp/io") == "ünicode", "from a text file")
    files.write("/tmp/octets", content, use_octet_stream=True)
    check(files.read("/tmp/octets", "bytes") == content, "as octets")
    files.write("/tmp/packed", content, gzip=True)
    check(files.read("/tmp/packed", "bytes") == content, "packed")
    if VERSION >= (2, 63):  # before, iterables were no data
        files.write("/tmp/parts", (bytes([each]) * 1000 for each in range(256)))
        check(len(files.read("/tmp/parts", "bytes")) == 256_000, "from parts")
    relative = files.write("relative.txt", "here")
    check(relative.path.startswith("/"), "the path of a relative one is absolute")
    check(files.read(relative.path) == files.read("relative.txt") == "here", "relative to the same folder")
    check(files.write("~/home.txt", "x", user="root").path == "/root/home.txt", "the home of a user")
    refused(lambda: files.read("/tmp/no"), FileNotFoundException)
    refused(lambda: files.read("/tmp"), InvalidArgumentException)
    refused(lambda: files.write("/tmp", "x"), InvalidArgumentException)
    refused(lambda: files.write("/tmp/bytes/below", "x"), SandboxException)


def several(files: Any) -> None:
    entries: list[dict[str, Any]] = [
        {"path": "/tmp/many/a", "data": "a"},
        {"path": "/tmp/many/deep/ß c", "data": b"\x00\r\n\xff"},
        {"path": "/tmp/many/d", "data": io.BytesIO(b"d" * 100_000)},
    ]
    made = files.write_files(entries)
    check([each.path for each in made] == [each["path"] for each in entries], "several files at once")
    check(files.read("/tmp/many/deep/ß c", "bytes") == b"\x00\r\n\xff", "one of them")
    check(files.write_files([]) == [], "none at all")


def big(files: Any) -> None:
    files.write("/tmp/big", BIG)
    check(files.read("/tmp/big", "bytes") == BIG, "20 MB")
    files.write("/tmp/big2", io.BytesIO(BIG))
    check(b"".join(files.read("/tmp/big2", "stream")) == BIG, "20 MB as streams")
    for name in ("/tmp/big", "/tmp/big2"):
        files.remove(name)


def looked_at(sandbox: Any) -> None:
    files = sandbox.files
    files.write("/tmp/list/b/c/d", "1234")
    files.write("/tmp/list/a", "")
    sandbox.commands.run("cd /tmp/list && ln -s b/c link && ln -s nowhere broken && chmod 640 a")
    found = files.list("/tmp/list")
    check(
        [each.name for each in found] == ["a", "b", "broken", "link"][: len(found)] or len(found) == 3,
        "names",
    )
    check({each.name for each in found} >= {"a", "b", "link"}, "a list by name")
    check(
        [each.path for each in files.list("/tmp/list/b", depth=2)] == ["/tmp/list/b/c", "/tmp/list/b/c/d"],
        "deep",
    )
    check(len(files.list("/tmp/list", depth=3)) == len(found) + 2, "three levels, and no link is followed")
    refused(lambda: files.list("/tmp/list", depth=0), InvalidArgumentException)
    refused(lambda: files.list("/tmp/list/a"), InvalidArgumentException)
    refused(lambda: files.list("/tmp/no"), FileNotFoundException)
    info = files.get_info("/tmp/list/b/c/d")
    check((info.name, info.type, info.size, info.mode) == ("d", FileType.FILE, 4, 0o644), "a file")
    check((info.permissions, info.owner, info.group) == ("-rw-r--r--", "user", "user"), "its rights")
    check(info.modified_time.year > 2000 and info.symlink_target is None, "its time")
    check(files.get_info("/tmp/list/a").permissions == "-rw-r-----", "other rights")
    folder = files.get_info("/tmp/list/b")
    check((folder.type, folder.permissions[0]) == (FileType.DIR, "d"), "a folder")
    link = files.get_info("/tmp/list/link")
    check(link.symlink_target == "/tmp/list/b/c", "a link")
    check(files.exists("/tmp/list/b") and files.exists("/tmp/list/broken"), "they exist")
    check(not files.exists("/tmp/list/no") and not files.exists("/tmp/list/a/no"), "they do not")
    refused(lambda: files.get_info("/tmp/no"), FileNotFoundException)


def changed(files: Any) -> None:
    check(files.make_dir("/tmp/made/x/y") is True, "made")
    check(files.make_dir("/tmp/made/x/y") is False, "made before")
    files.write("/tmp/made/f", "f")
    refused(lambda: files.make_dir("/tmp/made/f"), SandboxException)
    moved = files.rename("/tmp/made/f", "/tmp/made/other/g")
    check((moved.name, moved.path, moved.size) == ("g", "/tmp/made/other/g", 1), "moved")
    check(not files.exists("/tmp/made/f"), "the old name is free")
    refused(lambda: files.rename("/tmp/made/no", "/tmp/made/no2"), FileNotFoundException)
    files.remove("/tmp/made")
    check(not files.exists("/tmp/made"), "removed with all that was in it")
    files.remove("/tmp/made")
    check(True, "what is not there can be removed")


def as_another_user(sandbox: Any) -> None:
    files = sandbox.files
    sandbox.commands.run(
        "mkdir -p /tmp/theirs && chown nobody /tmp/theirs && echo s > /tmp/secret && chmod 600 /tmp/secret",
        user="root",
    )
    files.write("/tmp/theirs/f", "x", user="nobody")
    check(files.get_info("/tmp/theirs/f").owner == "nobody", "it is theirs")
    refused(lambda: files.read("/tmp/secret", user="nobody"), SandboxException)
    refused(lambda: files.remove("/tmp/secret", user="nobody"), SandboxException)
    refused(lambda: files.write("/root/denied", BIG, user="nobody"), SandboxException)
    refused(lambda: files.read("/tmp/secret", user="stranger"), InvalidArgumentException)


def watched(files: Any) -> None:
    files.make_dir("/tmp/watched/sub")
    flat, deep = files.watch_dir("/tmp/watched"), files.watch_dir("/tmp/watched", recursive=True)
    files.write("/tmp/watched/sub/f", "x")
    files.write("/tmp/watched/g", "y")
    check([(each.name, each.type) for each in _until(flat, "g", 3)] == _made("g"), "one level, and no more")
    found = [(each.name, each.type) for each in _until(deep, "g", 3)]
    check(sorted(found, key=str) == sorted(_made("sub/f") + _made("g"), key=str), "all levels")
    files.write("/tmp/watched/g", "z")
    check([each.type for each in _until(flat, "g", 1)] == [FilesystemEventType.WRITE], "written")
    files.rename("/tmp/watched/g", "/tmp/watched/h")
    moved = [("g", FilesystemEventType.RENAME), *_made("h")]
    check([(each.name, each.type) for each in _until(flat, "h", 3)] == moved, "renamed")
    files.remove("/tmp/watched/h")
    check([each.type for each in _until(flat, "h", 1)] == [FilesystemEventType.REMOVE], "removed")
    check(flat.get_new_events() == [], "nothing new")
    flat.stop()
    refused(flat.get_new_events, SandboxException)
    deep.stop()
    refused(lambda: files.watch_dir("/tmp/no"), FileNotFoundException)
    refused(lambda: files.watch_dir("/tmp/bytes"), InvalidArgumentException)


def with_metadata(files: Any) -> None:
    """A parameter that older clients do not know."""
    told = files.write("/tmp/with", "x", metadata={"Author": "Ada"})
    check(told.metadata == {"author": "Ada"}, "metadata that was written")
    check(files.get_info("/tmp/with").metadata == {"author": "Ada"}, "metadata of a file")
    watch = files.watch_dir("/tmp", include_entry=True)
    files.write("/tmp/seen", "x")
    check(_until(watch, "seen", 3)[-1].entry.path == "/tmp/seen", "an event with what is there")
    watch.stop()


def _made(name: str) -> list[tuple[str, Any]]:
    kinds = (FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE)
    return [(name, kind) for kind in kinds]


def _until(watch: Any, name: str, times: int) -> list[Any]:
    """The events of a watch, until one name has that many."""
    found: list[Any] = []
    for _ in range(3000):
        found += watch.get_new_events()
        if sum(each.name == name for each in found) >= times:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no events of {name}: {found}")


def signed(sandbox: Any) -> None:
    files = sandbox.files
    url = sandbox.upload_url("/tmp/signed ü", use_signature_expiration=60)
    check(_posted(url, b"by its address")[0] == 200, "uploaded without a token")
    check(files.read("/tmp/signed ü") == "by its address", "what was uploaded")
    check(_fetched(sandbox.download_url("/tmp/signed ü")) == (200, b"by its address"), "downloaded")
    check(_fetched(sandbox.download_url("/tmp/signed ü", user="root"))[0] == 200, "as a user")
    check(_fetched(sandbox.upload_url("/tmp/signed ü"))[0] == 401, "a signature to write is none to read")
    check(_posted(sandbox.download_url("/tmp/signed ü"), b"x")[0] == 401, "nor one to read one to write")
    url = sandbox.download_url("/tmp/signed ü", user="nobody", use_signature_expiration=60)
    check(_fetched(url)[0] == 200, "before its end")
    for before, after in (
        ("signed", "secret"),
        ("username=nobody", "username=root"),
        ("expiration=", "expiration=9"),
    ):
        check(before in url and _fetched(url.replace(before, after))[0] == 401, f"another {before}")
    check(_fetched(url + "&path=/etc/passwd")[0] == 401, "two paths")
    check(_fetched(sandbox.download_url("/tmp/signed ü", use_signature_expiration=-10))[0] == 401, "too late")
    check(_fetched(sandbox.download_url("/tmp/no"))[0] == 404, "nothing there")


def _posted(url: str, content: bytes) -> tuple[int, bytes]:
    edge = "edge-of-parts"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    body = head.encode() + content + f"\r\n--{edge}--\r\n".encode()
    request = urllib.request.Request(url, body, {"content-type": f"multipart/form-data; boundary={edge}"})
    return _fetched(request)


def _fetched(request: str | urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def main() -> None:
    sandbox = Sandbox.create()
    try:
        check(sandbox.is_running(), "it runs")
        written_and_read(sandbox.files)
        several(sandbox.files)
        big(sandbox.files)
        looked_at(sandbox)
        changed(sandbox.files)
        as_another_user(sandbox)
        watched(sandbox.files)
        if VERSION >= (2, 63):
            with_metadata(sandbox.files)
        signed(sandbox)
    finally:
        sandbox.kill()
    check(not sandbox.is_running(), "it has ended")
    # Which exception says so differs between versions.
    refused(lambda: sandbox.files.read("/tmp/io"), Exception)
    print(f"ok: {checks}")


if __name__ == "__main__":
    main()
