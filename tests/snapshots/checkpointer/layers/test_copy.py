"""Copies of a layer in passes: changes that a later pass finds, and several layers as one."""

from __future__ import annotations

import mmap
import os
import socket
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import peak_memory

from holdfast.snapshots.checkpointer.layers import contents, copy, file_entry, scan
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy, merged
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.wire.deadline import Deadline, Passed


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    folder = tmp_path / "upper"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do not wait for the clock to tick; tests that depend on it state that."""
    monkeypatch.setattr(scan, "UNSETTLED", 0)
    monkeypatch.setattr(scan, "settled", lambda identity, least=0: identity[1] < time.time_ns() - least)


def age(path: Path) -> None:
    """Make sure that the next change of a file has another time."""
    before = path.stat(follow_symlinks=False).st_ctime_ns
    probe = path.parent / "probe"
    while True:
        probe.touch()
        now = probe.stat().st_ctime_ns
        probe.unlink()
        if now > before:
            return


def complete(upper: Path, folder: Path, *, mapped: tuple[str, ...] = ()) -> LayerCopy:
    made = LayerCopy(folder, "trusted.overlay.")
    made.resume()
    made.last(upper, mapped)
    made.save()
    return made


def begin(upper: Path, folder: Path) -> LayerCopy:
    made = LayerCopy(folder, "trusted.overlay.")
    made.first(upper)
    made.pause()
    return made


def saved(folder: Path) -> dict[str, FileEntry]:
    return {item.path: item for item in file_entry.read(folder / file_entry.ENTRIES)[0]}


def data(folder: Path, item: FileEntry) -> bytes:
    with (folder / file_entry.DATA).open("rb") as file:
        return os.pread(file.fileno(), item.stored, item.offset)


def contents_of(folder: Path, item: FileEntry) -> list[tuple[int, bytes]]:
    """Return the parts of a file that are not holes."""
    stored, found = data(folder, item), []
    for begin, length in item.pieces():
        found.append((begin, stored[:length]))
        stored = stored[length:]
    assert not stored
    return found


def test_unchanged_files_are_not_copied_again(upper: Path, folder: Path) -> None:
    """The second pass costs the writes since the first, not all earlier ones."""
    (upper / "old").write_bytes(b"o" * 100_000)
    (upper / "new").write_bytes(b"n")
    age(upper / "new")
    first = begin(upper, folder)
    (upper / "new").write_bytes(b"changed")
    last = complete(upper, folder)
    assert last.size == first.size + len(b"changed")
    found = saved(folder)
    assert data(folder, found["old"]) == b"o" * 100_000
    assert data(folder, found["new"]) == b"changed"


def test_files_removed_during_a_copy_are_not_in_it(upper: Path, folder: Path) -> None:
    """The copy equals the last pass."""
    (upper / "gone").write_text("x")
    (upper / "folder").mkdir()
    (upper / "folder" / "inside").write_text("y")
    begin(upper, folder)
    (upper / "gone").unlink()
    (upper / "folder").rename(upper / "moved")
    complete(upper, folder)
    assert sorted(saved(folder)) == ["moved", "moved/inside"]


class Swapping(LayerCopy):
    """A link of the session becomes a folder after it was looked at, and before it is read."""

    def __init__(self, folder: Path, link: Path) -> None:
        super().__init__(folder, "trusted.overlay.")
        self._link = link

    def _unchanged(self, path: str, identity: scan.Identity) -> FileEntry | None:
        if path == self._link.name and self._link.is_symlink():
            self._link.unlink()
            self._link.mkdir()
        return super()._unchanged(path, identity)


def test_files_replaced_during_a_look_are_found_by_the_next_pass(upper: Path, folder: Path) -> None:
    """A session that swaps names does not keep its files from being copied."""
    (upper / "name").symlink_to("/etc")
    (upper / "other").write_text("x")
    made = Swapping(folder, upper / "name")
    made.first(upper)
    made.pause()
    complete(upper, folder)
    assert {path: item.kind for path, item in saved(folder).items()} == {
        "name": file_entry.DIRECTORY,
        "other": file_entry.FILE,
    }


def test_files_of_a_moved_directory_are_not_copied_again(upper: Path, folder: Path) -> None:
    """A file is known by its identity, not by its place."""
    (upper / "folder").mkdir()
    (upper / "folder" / "large").write_bytes(b"l" * 1_000_000)
    first = begin(upper, folder)
    (upper / "folder").rename(upper / "moved")
    last = complete(upper, folder)
    assert last.size == first.size
    assert data(folder, saved(folder)["moved/large"]) == b"l" * 1_000_000


def test_a_change_that_keeps_size_and_time_is_seen(upper: Path, folder: Path) -> None:
    """Programs can set the time of a file's contents, but not the time of its last change."""
    file = upper / "file"
    file.write_text("before")
    os.utime(file, ns=(1, 1))
    age(file)
    begin(upper, folder)
    file.write_text("behind")
    os.utime(file, ns=(1, 1))
    complete(upper, folder)
    assert data(folder, saved(folder)["file"]) == b"behind"


def test_a_change_within_a_tick_is_copied_again(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changed just before it was copied can change again without a new time."""
    monkeypatch.setattr(scan, "settled", lambda identity, least=10**12: False)
    (upper / "file").write_text("fresh")
    first = begin(upper, folder)
    last = complete(upper, folder)
    assert last.size > first.size


def test_a_file_that_is_open_for_writing_is_copied_again(upper: Path, folder: Path) -> None:
    """A long write changes the time when it begins; nothing shows that it continued after the copy."""
    file = upper / "file"
    file.write_bytes(b"12345678")
    age(file)
    with file.open("r+b"):
        first = begin(upper, folder)
    last = complete(upper, folder)
    assert last.size == first.size + 8


def test_a_file_without_writers_is_recognized(upper: Path) -> None:
    """The kernel knows who has a file open for writing, or mapped for it."""
    file = upper / "file"
    file.write_bytes(b"x" * mmap.PAGESIZE)
    with file.open("rb") as reading:
        assert contents.written_by_nobody(reading.fileno())
        with file.open("r+b") as writing:
            assert not contents.written_by_nobody(reading.fileno())
            shared = mmap.mmap(writing.fileno(), mmap.PAGESIZE)
        assert not contents.written_by_nobody(reading.fileno())
        shared.close()
        assert contents.written_by_nobody(reading.fileno())


def test_a_file_that_is_mapped_for_writing_is_copied_again_under_all_its_names(
    upper: Path, folder: Path
) -> None:
    """A write to a mapped page that is dirty already changes no time."""
    file = upper / "b"
    file.write_bytes(b"x" * mmap.PAGESIZE)
    os.link(file, upper / "a")
    os.link(file, upper / "c")
    age(file)
    begin(upper, folder)
    with file.open("r+b") as writing, mmap.mmap(writing.fileno(), mmap.PAGESIZE) as shared:
        shared[:3] = b"new"
        complete(upper, folder, mapped=("b",))
    found = saved(folder)
    assert {data(folder, found[name])[:3] for name in "abc"} == {b"new"}
    assert len({found[name].group for name in "abc"}) == 1


def test_holes_take_no_space(upper: Path, folder: Path) -> None:
    """A sparse file is also sparse in the copy."""
    with (upper / "sparse").open("wb") as file:
        file.seek(64 << 20)
        file.write(b"end")
    (upper / "after").write_bytes(b"after")
    begin(upper, folder)
    complete(upper, folder)
    found = saved(folder)
    assert (found["sparse"].size, found["sparse"].holes) == ((64 << 20) + 3, [[0, 64 << 20]])
    assert contents_of(folder, found["sparse"]) == [(64 << 20, b"end")]
    assert contents_of(folder, found["after"]) == [(0, b"after")]
    assert (folder / file_entry.DATA).stat().st_size == len(b"endafter")


def test_small_holes_are_zeros(upper: Path, folder: Path) -> None:
    """A file of which every other block is a hole does not make a list of them."""
    with (upper / "file").open("wb") as file:
        for block in range(8):
            file.seek(block * 8192)
            file.write(b"x" * 4096)
    begin(upper, folder)
    complete(upper, folder)
    item = saved(folder)["file"]
    assert item.holes == []
    assert contents_of(folder, item) == [(0, (b"x" * 4096 + bytes(4096)) * 7 + b"x" * 4096)]


def test_all_names_of_a_large_file_have_its_contents(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are copied when all of a pass are known, each once."""
    monkeypatch.setattr(copy, "LARGE_FILE", 4096)
    (upper / "a").write_bytes(b"large" * 4096)
    (upper / "b").hardlink_to(upper / "a")
    begin(upper, folder)
    complete(upper, folder)
    found = saved(folder)
    assert contents_of(folder, found["a"]) == contents_of(folder, found["b"]) == [(0, b"large" * 4096)]
    assert found["a"].offset == found["b"].offset
    assert found["a"].group == found["b"].group != ""


def test_files_larger_than_the_free_space_are_refused_by_name(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing large is copied then. A file counts by its space, and by its length where the image has it."""
    monkeypatch.setattr(copy, "LARGE_FILE", 4096)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=20, f_frsize=1 << 20))
    (upper / "large").write_bytes(bytes(8 << 20))
    with (upper / "map").open("wb") as file:
        file.truncate(1 << 40)
        file.write(b"x" * 8192)
    with pytest.raises(OSError, match=r"'/large' holds 8 of 8 MiB.* 24 MiB are needed, and 20 MiB are free"):
        begin(upper, folder)
    assert (folder / file_entry.DATA).stat().st_size == 0
    (upper / "large").unlink()
    begin(upper, folder.with_name("again"))


def test_a_programs_attribute_is_not_a_mark_of_the_overlay(upper: Path, folder: Path) -> None:
    """The overlay's mount decides which of them it heeds; any program can set the other one."""
    (upper / "etc").mkdir()
    os.setxattr(upper / "etc", "user.overlay.opaque", b"y")
    os.setxattr(upper / "etc", "user.overlay.redirect", b"/somewhere")
    begin(upper, folder)
    complete(upper, folder)
    item = saved(folder)["etc"]
    assert not item.opaque
    assert item.attributes == {"user.overlay.opaque": "y", "user.overlay.redirect": "/somewhere"}
    with pytest.raises(scan.UnsupportedEntry):
        LayerCopy(folder.with_name("private"), "user.overlay.").first(upper)


def test_every_entry_is_described(upper: Path, folder: Path) -> None:
    """Modes, owners, times, links, pipes, attributes and names that are not text come through."""
    (upper / "link").symlink_to("/etc/passwd")
    os.mkfifo(upper / "pipe", 0o640)
    strange = upper / "\udcff\nname"
    strange.write_bytes(b"s")
    strange.chmod(0o4711)
    os.utime(strange, ns=(5, 1_600_000_000_123_456_789))
    os.setxattr(strange, "user.note", b"\x00\xff")
    (upper / "folder").mkdir(0o1777)
    (upper / "folder").chmod(0o1777)
    begin(upper, folder)
    complete(upper, folder)
    found = saved(folder)
    assert (found["link"].kind, found["link"].target) == (file_entry.LINK, "/etc/passwd")
    assert (found["pipe"].kind, found["pipe"].mode) == (file_entry.FIFO, 0o640)
    assert (found["folder"].kind, found["folder"].mode) == (file_entry.DIRECTORY, 0o1777)
    item = found["\udcff\nname"]
    assert (item.mode, item.mtime, item.uid) == (0o4711, 1_600_000_000_123_456_789, os.getuid())
    assert item.attributes == {"user.note": "\x00\xff"}


def test_all_names_of_a_special_file_are_one_group(upper: Path, folder: Path) -> None:
    """Pipes and links can also have several names: each pair stays one thing."""
    os.mkfifo(upper / "pipe")
    (upper / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        os.link(upper / name, upper / f"{name} again", follow_symlinks=False)
    (upper / "alone").symlink_to("pipe")
    begin(upper, folder)
    complete(upper, folder)
    found = saved(folder)
    for name in ("pipe", "link"):
        assert found[name].group == found[f"{name} again"].group != ""
    assert found["link"].group != found["pipe"].group
    assert found["alone"].group == ""


def test_links_of_a_session_are_not_followed(upper: Path, folder: Path, tmp_path: Path) -> None:
    """A directory that becomes a link to somewhere else while it is listed is not followed."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (upper / "folder").mkdir()
    (upper / "folder" / "key").write_text("own")

    def swap(_path: str, _identity: object) -> None:
        if (upper / "folder").is_dir() and not (upper / "folder").is_symlink():
            (upper / "folder").rename(upper / "aside")
            (upper / "folder").symlink_to(secret)

    descriptor = os.open(upper, os.O_RDONLY)
    try:
        found = list(scan.scan(descriptor, "trusted.overlay.", swap, scan.ScanBudget()))
    finally:
        os.close(descriptor)
    assert "folder/key" not in {seen.entry.path for seen in found}


def test_a_tree_without_bottom_is_refused(upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories nested for ever do not take all descriptors."""
    monkeypatch.setattr(scan, "DEEPEST", 5)
    (upper / "/".join("abcdefg")).mkdir(parents=True)
    with pytest.raises(scan.UnsupportedEntry, match="nested"):
        LayerCopy(folder, "trusted.overlay.").first(upper)


def test_sockets_are_known_by_their_inodes(upper: Path, folder: Path) -> None:
    """A restored process binds its socket by the first name; the file has all of them."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(upper / "first"))
        (upper / "second").hardlink_to(upper / "first")
        begin(upper, folder)
        made = LayerCopy(folder, "trusted.overlay.")
        made.resume()
        assert made.sockets() == {(upper / "first").stat().st_ino: ["first", "second"]}


def test_passes_are_repeated_while_much_changes(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes during a long first pass are also copied before the freeze, within limits."""
    monkeypatch.setattr(copy, "LITTLE", 10)
    file = upper / "file"
    passes = 0
    real = LayerCopy._pass

    def counting(self: LayerCopy, layer: Path, group: str, mapped: set[str]) -> list[FileEntry]:
        nonlocal passes
        passes += 1
        age(file) if file.exists() else None
        file.write_bytes(b"%d" % passes * 20)
        return real(self, layer, group, mapped)

    monkeypatch.setattr(LayerCopy, "_pass", counting)
    LayerCopy(folder, "trusted.overlay.").first(upper)
    assert passes == copy.PASSES


def test_more_files_than_are_kept_are_refused_by_name(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes memory: a flood of empty files ends the copy, which says where they are."""
    monkeypatch.setattr(scan, "MOST_FILES", 100)
    (upper / "etc").mkdir()
    for number in range(10):
        (upper / "srv" / "cache" / str(number)).mkdir(parents=True)
        for name in range(9):
            (upper / "srv" / "cache" / str(number) / str(name)).touch()

    with pytest.raises(OSError, match=r"more than 100 files .*, most of them in /srv/cache"):
        LayerCopy(folder, "trusted.overlay.").first(upper)


def test_a_crowded_folder_is_not_listed_to_its_end(
    upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder of more files than are kept is refused before they are looked at."""
    monkeypatch.setattr(scan, "MOST_FILES", 100)
    (upper / "heap").mkdir()
    for name in range(101):
        (upper / "heap" / str(name)).touch()
    really = scan.identify

    def identify(found: os.stat_result) -> scan.Identity:
        assert not stat.S_ISREG(found.st_mode)
        return really(found)

    monkeypatch.setattr(scan, "identify", identify)

    with pytest.raises(OSError, match="most of them in /heap"):
        LayerCopy(folder, "trusted.overlay.").first(upper)


NESTED = """
import os, sys
from pathlib import Path
from holdfast.snapshots.checkpointer.layers import scan
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
scan.MOST_FILES = 20_000
try:
    LayerCopy(Path(sys.argv[2]), "trusted.overlay.").first(Path(sys.argv[1]))
except scan.TooManyEntries as error:
    print(error)
"""


def test_crowded_folders_within_each_other_are_counted_together(upper: Path, tmp_path: Path) -> None:
    """Whatever is in them: names that no image has, such as sockets', are also in memory."""
    at = upper
    for _ in range(12):
        for number in range(5000):
            os.mknod(at / f".wh.{number:0200}", stat.S_IFREG)
        at = at / "below"
        at.mkdir()
    output = tmp_path / "out"
    command = [sys.executable, "-c", NESTED, str(upper), str(tmp_path / "copy")]
    code, kilobytes = peak_memory.run(command, os.environ, output)

    assert code == 0
    assert "more than 20000 files" in output.read_text()
    assert "most of them in /below/below" in output.read_text()
    # Of them all it would be 20 MB more than the 20 MB that Python has.
    assert kilobytes < 36 << 10


def test_kept_layers_below_count(
    upper: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layers that are put together are in memory together."""
    lowers = [tmp_path / "one", tmp_path / "two"]
    for layer in (upper, *lowers):
        layer.mkdir(exist_ok=True)
        for number in range(40):
            (layer / str(number)).touch()
    monkeypatch.setattr(scan, "MOST_FILES", 120)
    LayerCopy(folder, "trusted.overlay.").first(upper, lowers)
    monkeypatch.setattr(scan, "MOST_FILES", 119)
    with pytest.raises(scan.TooManyEntries):
        LayerCopy(tmp_path / "again", "trusted.overlay.").first(upper, lowers)


def test_a_copy_that_takes_too_long_ends(upper: Path, folder: Path) -> None:
    """Between two files and in the middle of one: nothing is frozen for longer than the limit."""
    (upper / "few").write_bytes(b"x")
    made = begin(upper, folder)
    (upper / "few").write_bytes(b"changed")

    with pytest.raises(Passed, match=r"to copy its files took longer than 1e-06 s"):
        made.last(upper, (), Deadline(1e-6))


def test_a_large_file_is_left_in_its_middle(upper: Path, tmp_path: Path) -> None:
    """One file can be larger than the amount a disk takes in the given time."""
    (upper / "large").write_bytes(b"x" * (80 << 20))
    calls: list[int] = []

    def check() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise Passed("that is enough")

    source, target = (
        os.open(upper / "large", os.O_RDONLY),
        os.open(tmp_path / "target", os.O_CREAT | os.O_WRONLY),
    )
    try:
        with pytest.raises(Passed):
            contents.copy(source, target, 0, 80 << 20, check)
    finally:
        os.close(source)
        os.close(target)
    assert 0 < (tmp_path / "target").stat().st_size < 80 << 20


def test_long_names_also_count(upper: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, links and attributes take memory as files do."""
    monkeypatch.setattr(scan, "MOST_TEXT", 3 << 20)
    for number in range(800):
        (upper / f"link{number}").symlink_to("x" * 4000)

    with pytest.raises(OSError, match="more than 3 MB of names"):
        LayerCopy(folder, "trusted.overlay.").first(upper)


def d(path: str, *, opaque: bool = False) -> FileEntry:
    return FileEntry(path, file_entry.DIRECTORY, opaque=opaque)


def f(path: str, offset: int = 0) -> FileEntry:
    return FileEntry(path, file_entry.FILE, offset=offset)


def gone(path: str) -> FileEntry:
    return FileEntry(path, file_entry.WHITEOUT)


def shape(entries: list[FileEntry]) -> list[str]:
    return [f"{item.path}:{item.kind}{':opaque' if item.opaque else ''}" for item in entries]


def test_the_upper_file_wins() -> None:
    """Of two files of one name the upper one is seen."""
    assert [item.offset for item in merged([[f("a", 1)], [f("a", 2)]])] == [2]


def test_directories_are_joined() -> None:
    """The entries that both have in a directory are in it."""
    assert shape(merged([[d("x"), f("x/a")], [d("x"), f("x/b")]])) == ["x:directory", "x/a:file", "x/b:file"]


def test_a_deletion_takes_entries_below_and_stays() -> None:
    """The image below can also have the name."""
    assert shape(merged([[d("x"), f("x/a")], [gone("x")]])) == ["x:whiteout"]


def test_an_opaque_directory_hides_lower_layers() -> None:
    """A directory that was removed and made again has only the entries after that."""
    below = [d("x"), f("x/a")]
    assert shape(merged([below, [d("x", opaque=True), f("x/b")]])) == ["x:directory:opaque", "x/b:file"]


def test_a_directory_over_a_deletion_becomes_opaque() -> None:
    """Its layer needed no mark for it, for the deletion below hid everything."""
    assert shape(merged([[gone("x")], [d("x"), f("x/b")]])) == ["x:directory:opaque", "x/b:file"]
    assert shape(merged([[f("x")], [d("x")]])) == ["x:directory:opaque"]


def test_an_opaque_directory_stays_so_under_another() -> None:
    """The image below stays hidden."""
    below = [d("x", opaque=True), f("x/a")]
    assert shape(merged([below, [d("x"), f("x/b")]])) == ["x:directory:opaque", "x/a:file", "x/b:file"]


def test_a_file_replaces_a_directory() -> None:
    """Nothing of the directory remains."""
    assert shape(merged([[d("x"), d("x/y"), f("x/y/a"), f("xy")], [f("x")]])) == ["x:file", "xy:file"]


def test_parents_come_first() -> None:
    """Also where a name sorts before the separator."""
    assert shape(merged([[d("a"), f("a/b"), f("a!"), f("a.b")]])) == [
        "a:directory",
        "a/b:file",
        "a!:file",
        "a.b:file",
    ]
