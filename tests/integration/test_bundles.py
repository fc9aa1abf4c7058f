"""Snapshots that move from one home to another; and bundles that should not be let in."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import pytest
from tests.forging import Forgery, Thin
from tests.hostile import HOSTILE
from tests.integration import test_egress as egress
from tests.integration.conftest import Cli, clear_home
from tests.integration.exported_moment import Moment
from tests.integration.test_egress import REFUSED, Place, tried
from tests.machines.second import Machine

from holdfast.base.home import Home
from holdfast.errors import BundleRefused, BundleUntrusted, HoldfastError, InvalidArgument, SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import snapshot_image
from holdfast.runtime.transfer import send
from holdfast.runtime.transfer.outgoing_parts import KINDS, Remembered
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.snapshots import manifest, snapshot_policy
from holdfast.snapshots.bundle import form, image_layers, media, shared_blobs
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.sealing import Sealing

host = egress.host

SYS_ADMIN = 1 << snapshot_policy.CAPABILITIES.index("SYS_ADMIN")
TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"


def remember_layers(hf: Holdfast, taken: Snapshot) -> None:
    """Treat layers known to be there as read: compressing them takes longer than all the rest."""
    known = Remembered(hf.home.root / "cache" / "layers.json")
    for layer in image_layers.look(hf.engine, snapshot_image.obtain(hf.context, taken.row)).layers:
        packed = BlobDescriptor(media.LAYER_ZSTD, layer, 1000, {media.RAW_BYTES: "5000"})
        known.add(f"{KINDS['zstd'][2]} {layer}", packed)


@pytest.fixture(scope="module")
def moment(shared: Session, shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Moment:
    shared.exec("cd /workspace; echo text > file; echo part > /dev/shm/part; MOMENT=kept; sleep 1000 &")
    shared.cell("data = [1, 2, 3]")
    pid = int(shared.exec("echo $$").text)
    shared.task.set(goal="Port the store", resume_at=f"after the login with {TOKEN}")
    taken = shared.snapshot("moment")
    keys = Keys(shared_hf.home)
    keys.new()
    key = keys.signer()
    assert key is not None
    file = tmp_path_factory.mktemp("bundles") / "moment.tar"
    remember_layers(shared_hf, taken)
    with Thin(file) as destination:
        done = send.send(shared_hf.context, taken.row, destination, SendOptions(sign=key, compression="zstd"))
    assert done.signed_by == key.public
    return Moment(shared_hf, taken.id, file, key, pid)


@pytest.fixture(scope="module")
def hollow(moment: Moment) -> Forgery:
    """Return the same with memory of zeros, to be forged."""
    made = Forgery(moment.file)
    made.empty()
    return made


@pytest.fixture(scope="module")
def elsewhere(
    tmp_path_factory: pytest.TempPathFactory, clear: Callable[[Holdfast], None]
) -> Iterator[Holdfast]:
    """Another home on the same engine."""
    with Holdfast(Home(tmp_path_factory.mktemp("elsewhere") / "home").create()) as other:
        yield other
        clear(other)


@pytest.fixture
def trusting(elsewhere: Holdfast, moment: Moment) -> Holdfast:
    """Make it trust the key of the first home."""
    Keys(elsewhere.home).trust(moment.key.public, "friend")
    return elsewhere


def kept(hf: Holdfast) -> list[str]:
    """Return the possible leftovers of an import: rows, folders, images."""
    found = [row.id for row in hf.store.snapshots(pending=True)]
    found += [row.id for row in hf.store.sessions(removed=True)]
    for folder in (hf.home.staging, hf.home.snapshots):
        found += [path.name for path in folder.iterdir()]
    return sorted(found + [each.id for each in hf.engine.images.listed(holdfast_home=hf.home.digest)])


def test_nothing_is_imported_from_untrusted_signers(
    elsewhere: Holdfast, moment: Moment, hollow: Forgery, tmp_path: Path
) -> None:
    """The message has the key and the command that would trust it; a home's own key counts as trusted."""
    before = kept(elsewhere)
    unsigned = hollow.write(tmp_path / "unsigned.tar", None)

    with pytest.raises(BundleUntrusted, match=moment.key.public) as told:
        elsewhere.import_(moment.file)
    assert f"holdfast key trust {moment.key.public}" in told.value.hint
    with pytest.raises(BundleUntrusted, match="it is not signed") as told:
        elsewhere.import_(unsigned)
    assert "--files-only" in told.value.hint
    assert kept(elsewhere) == before


def test_a_snapshot_continues_in_another_home(trusting: Holdfast, moment: Moment) -> None:
    """Processes, memory, files, shared memory, variables; its journal, task and origin are known."""
    with pytest.raises(InvalidArgument, match="not a valid name"):
        trusting.import_(moment.file, label="../evil")
    came = trusting.import_(moment.file, memory="1g")
    with pytest.raises(InvalidArgument, match="taken"):
        trusting.import_(moment.file, label="moment", memory="2g")
    again = trusting.import_(moment.file)
    with pytest.raises(SessionExists, match="another home of this engine has session shared") as refused:
        came.restore(keep_id=True)
    assert "--keep-id makes a copy" in refused.value.hint

    assert (came.kind, came.label, again.id != came.id) == ("live", "moment", False)
    origin = came.row.details["origin"]
    assert (origin["key"], origin["snapshot"], origin["session_name"]) == (
        moment.key.public,
        moment.id,
        "shared",
    )
    restored = came.restore("thawed")
    task = restored.task.record()
    assert task is not None
    assert (task.goal, task.resume_at) == ("Port the store", "after the login with [scrubbed: github token]")
    assert restored.verification is not None
    assert restored.verification.deviations == []
    assert restored.exec("cat file /dev/shm/part; echo $MOMENT; jobs").text.splitlines()[:3] == [
        "text",
        "part",
        "kept",
    ]
    assert restored.cell("data").text == "[1, 2, 3]"
    assert restored.row.options["memory"] == 1 << 30
    assert any("MOMENT=kept" in json.dumps(entry.as_dict()) for entry in restored.journal())
    restored.remove()
    came.remove()


def test_an_export_is_imported_again_into_its_home(
    trusting: Holdfast, moment: Moment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first export makes the key, which counts as trusted in the home that made it."""
    monkeypatch.setattr(shared_blobs, "FileDestination", Thin)
    came = trusting.import_(moment.file)
    remember_layers(trusting, came)

    first = came.export(tmp_path / "first.tar", compression="zstd")
    second = came.export(tmp_path / "second.tar", compression="zstd")
    came.remove()
    back = trusting.import_(tmp_path / "first.tar", label="back")
    again = Cli(trusting.home)("import", str(tmp_path / "first.tar"), "--label", "other")
    assert (again.code, again.out) == (0, "back\n")
    assert "it is here already, as back" in again.err

    (own,) = [one for one in Keys(trusting.home).known() if one.own]
    assert (first.signed_by, second.signed_by) == (own.public, own.public)
    assert (first.new_key, second.new_key) == (True, False)
    restored = back.restore("back")
    assert restored.exec("echo $MOMENT").text == "kept\n"
    restored.remove()
    back.remove()
    Keys(trusting.home).remove(own.name)


@pytest.mark.thorough
def test_exports_of_a_folder_share_their_parts(
    hf: Holdfast, cli: Cli, tmp_path: Path, make_cli: Callable[[Home], Cli]
) -> None:
    """The second one adds little; the folder is copied, and both continue in another home."""
    session = hf.new("work")
    for name in ("one", "two"):
        session.exec(f"export MOMENT={name}; echo {name} > /srv/{name}")
        session.snapshot(name)
    folder = tmp_path / "out"
    sizes = {}
    for name in ("one", "two"):
        file = str(folder / f"{name}.holdfast")
        done = cli("export", name, file, "--shared", "--compression", "zstd", "--json")
        assert done.code == 0, done.err
        sizes[name] = done.json["sent"]
    assert sizes["two"] < sizes["one"] / 4

    copied = folder.rename(tmp_path / "elsewhere")
    there = make_cli(Home(tmp_path / "there").create())
    assert there("key", "trust", str(done.json["signed_by"])).code == 0
    for name in ("one", "two"):
        brought = there("thaw", str(copied / f"{name}.holdfast"), "--name", f"again-{name}", "--json")
        assert brought.code == 0, brought.err
        assert there("exec", f"again-{name}", "echo $MOMENT; cat /srv/$MOMENT").out == f"{name}\n{name}\n"
    (copied / "two.holdfast").rename(tmp_path / "two.holdfast")
    alone = there("import", str(tmp_path / "two.holdfast"))
    assert alone.code == 1
    assert "copy the whole folder" in alone.err
    with Holdfast(Home(tmp_path / "there")) as other:
        clear_home(other)


@pytest.mark.thorough
def test_a_thin_export_continues_where_the_image_is(
    hf: Holdfast, cli: Cli, second: Machine, tmp_path: Path
) -> None:
    """The other engine has the session image, by `docker save` and `docker load`."""
    hf.new("work").exec("export MOMENT=thin; echo thin > /srv/thin")
    hf.session("work").snapshot("one")
    file = tmp_path / "one.holdfast"
    done = cli("export", "one", str(file), "--thin", "--json")
    assert done.code == 0, done.err
    assert done.json["bytes"] == file.stat().st_size < 60 << 20

    trusted = second.cli("key", "trust", str(done.json["signed_by"]), "--name", "thin")
    assert trusted.returncode == 0, trusted.stderr
    brought = second.cli("thaw", str(file), "--name", "again", "--no-attach")
    assert brought.returncode == 0, brought.stderr
    assert second.cli("exec", "again", "echo $MOMENT; cat /srv/thin").stdout == "thin\nthin\n"
    for command in (("rm", "again"), ("rmi", "one"), ("key", "rm", "thin")):
        assert second.cli(*command).returncode == 0


def test_a_snapshot_arrives_through_a_pipe(trusting: Holdfast, moment: Moment) -> None:
    """Its pieces arrive in any size; a source that is not a pipe or not a bundle is refused in one line."""
    there = Cli(trusting.home)
    words = ("import", "-", "--label", "piped", "--json")
    arriving = there.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    told, _ = arriving.communicate(moment.file.read_bytes(), timeout=240)

    assert arriving.returncode == 0
    assert json.loads(told)["label"] == "piped"
    copy = trusting.snapshot("piped").restore("piped")
    assert copy.exec("echo $MOMENT; cat file").text == "kept\ntext\n"
    copy.remove()
    for given, message in (
        (("export", "piped", "-", "--json"), "cannot export to a pipe with --json"),
        (("import", "-"), "cannot import the data from the pipe"),
    ):
        failed = there(*given, stdin="no bundle")
        assert (failed.code, failed.out) == (1, "")
        assert message in failed.err
    trusting.snapshot("piped").remove()


@pytest.mark.thorough
def test_exceptions_are_given_where_a_bundle_is_imported(
    trusting: Holdfast, moment: Moment, host: Place, make_cli: Any
) -> None:
    """The bundle does not bring any; the user who thaws, imports or restores it can give some in the same
    command.
    """
    place, cli = f"{host.gateway}:{host.port}", make_cli(trusting.home)

    thawed = cli("thaw", str(moment.file), "--name", "opened", "--allow", place, "--no-attach")
    assert thawed.code == 0, thawed.err
    again = cli("import", str(moment.file), "--label", "also", "--allow", "10.9.8.7:80", "--network", "open")
    assert again.code == 0, again.err
    closed = trusting.import_(moment.file, label="closed", network="internet")
    wrong = cli("restore", "closed", "--allow", "no-such.invalid:80")
    assert (wrong.code, "no address is known" in wrong.err) == (1, True)
    with pytest.raises(InvalidArgument, match=r"without a network"):
        closed.restore(network="none", allow=[place])

    sessions = [trusting.session("opened"), closed.restore("closed")]
    found = [tried(each, (host.gateway, host.port, "tcp"))[0] for each in sessions]
    assert (found[0], found[1] in REFUSED) == ("connected", True)
    also = manifest.read(trusting.home.snapshots / trusting.snapshot("also").id).options
    assert (also["network"], also["allow"]) == ("open", ["10.9.8.7:80"])
    for session in sessions:
        session.remove()
    for snapshot in trusting.snapshots():
        snapshot.remove()


def test_the_files_of_a_bundle_need_no_trust(elsewhere: Holdfast, hollow: Forgery, tmp_path: Path) -> None:
    """They are an ordinary image's: memory is not imported, and its programs do not run."""
    unsigned = hollow.write(tmp_path / "unsigned.tar", None)

    came = elsewhere.import_(unsigned, files_only=True, label="files")

    assert (came.kind, came.label) == ("filesystem", "files")
    assert sorted(path.name for path in (elsewhere.home.snapshots / came.id).iterdir()) == ["manifest.json"]
    session = came.restore("files")
    assert session.exec("cat /workspace/file; echo [$MOMENT]").text == "text\n[]\n"
    session.remove()
    came.remove()


def test_an_encrypted_snapshot_is_imported_only_by_its_recipients(
    trusting: Holdfast, moment: Moment, hollow: Forgery, tmp_path: Path
) -> None:
    """With a key of that home or the passphrase; others learn what it takes, and nothing else."""
    own = Keys(trusting.home).new()
    keyed, locked = Sealing.new([own.recipient]), Sealing.new([], "correct horse")
    for_key = hollow.write(tmp_path / "keyed.tar", moment.key, keyed)
    for_phrase = hollow.write(tmp_path / "locked.tar", moment.key, locked)
    assert b"session_name" not in for_key.read_bytes()

    trusting.import_(for_key).remove()
    trusting.import_(for_phrase, passphrase="correct horse").remove()
    for wrong in (None, "battery staple"):
        with pytest.raises(BundleRefused, match="encrypted") as told:
            trusting.import_(for_phrase, passphrase=wrong)
        assert "HOLDFAST_BUNDLE_PASSPHRASE" in told.value.hint
    Keys(trusting.home).remove(own.name)
    with pytest.raises(BundleRefused, match="encrypted"):
        trusting.import_(for_key)


# Stops where only the last step is missing, and says so.
KILLED = """
import sys, signal
from holdfast import Holdfast
from holdfast.runtime.transfer import receive
load = receive.loading.load
def stop(*given):
    load(*given)
    print("here", flush=True)
    signal.pause()
receive.loading.load = stop
Holdfast(sys.argv[1]).import_(sys.argv[2])
"""


def test_an_import_that_is_killed_leaves_nothing(trusting: Holdfast, hollow: Forgery, moment: Moment) -> None:
    """The next process that opens the home removes its image, its files and its row.

    Process images that it had checked are not taken on trust by the next import: they can have been
    replaced by then.
    """
    file = hollow.write(moment.file.with_name("hollow.tar"), moment.key)
    before = set(kept(trusting))
    command = [sys.executable, "-c", KILLED, str(trusting.home.root), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as importing:
        assert importing.stdout is not None
        assert importing.stdout.readline() == b"here\n"
        during = set(kept(trusting))
        importing.kill()
    images = [path for new in during - before for path in trusting.home.root.glob(f"s*/{new}/images/*.img")]
    for path in images:
        path.write_bytes(b"altered" + path.read_bytes()[7:])

    with Holdfast(trusting.home):
        pass
    left = set(kept(trusting)) - before
    assert len(during - before) >= 4  # the row twice over, its folder, its image
    assert left <= {row.id for row in trusting.store.sessions(removed=True)}
    assert images
    assert not any(path.exists() for path in images)
    again = trusting.import_(file)
    assert trusting.verify(again.id).findings == []
    again.remove()


class Registry:
    """A destination that has what is in a file, and records what else it is given."""

    def __init__(self, file: Path) -> None:
        with tarfile.open(file) as archive:
            self.there = {name.rpartition("/")[2] for name in archive.getnames()}
        self.given: list[str] = []

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        return 0

    def has(self, blob: BlobDescriptor) -> bool:
        return blob.hex in self.there or blob.media_type == media.LAYER_ZSTD

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        self.given.append(blob.digest)

    def finish(self, index: bytes) -> str:
        return form.described("", index).hex

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_the_same_snapshot_has_the_same_digests(moment: Moment) -> None:
    """Nothing is sent to a destination that already has it: not the image, not the memory, not what names
    them.
    """
    registry = Registry(moment.file)
    row = moment.hf.snapshot(moment.id).row

    sent = send.send(moment.hf.context, row, registry, SendOptions(sign=moment.key, compression="zstd"))

    assert registry.given == []
    assert sent.where in registry.there


def test_hostile_bundles_are_refused_and_leave_nothing(
    trusting: Holdfast, moment: Moment, hollow: Forgery, tmp_path: Path
) -> None:
    """Each is complete and signed with a trusted key: digests and signature hold, its requests do not."""
    before = kept(trusting)
    wrong: dict[str, str] = {}
    for name, (change, expected) in HOSTILE.items():
        forgery = copy.deepcopy(hollow)
        change(forgery)
        file = forgery.write(tmp_path / "hostile.tar", moment.key)
        try:
            trusting.import_(file)
            wrong[name] = "was let in"
        except HoldfastError as error:
            if not any(word in str(error) for word in expected.split("|")):
                wrong[name] = repr(error)
    assert wrong == {}
    assert kept(trusting) == before


ALTERED = {
    "more capabilities": ("core-{pid}.img", f"c = found[0].thread_core.creds; c.cap_eff[0] |= {SYS_ADMIN}"),
    "no seccomp": ("core-{pid}.img", "found[0].thread_core.seccomp_mode = 0"),
    "no rights at all": ("core-{pid}.img", "found[0].thread_core.ClearField('creds')"),
    "a filter that lets everything through": (
        "seccomp.img",
        "for one in found[0].seccomp_filters: one.filter = bytes.fromhex('060000000000ff7f')",
    ),
    "spared when memory is short": ("core-{pid}.img", "found[0].tc.oom_score_adj = -1000"),
    "another name": ("core-{pid}.img", "found[0].tc.comm = 'init'; found[0].thread_core.comm = 'init'"),
    "memory of CRIU": (
        "files.img",
        "one = next(e for e in found if e.HasField('reg') and e.reg.name == '/dev/null'); "
        "one.reg.name = '/proc/320/fd/7/keys/default.pem'; one.reg.flags = 2",
    ),
    "a file from outside": ("files.img", "next(e for e in found if e.HasField('reg')).reg.ext = True"),
    "up and out": ("files.img", "next(e for e in found if e.HasField('reg')).reg.name = '/../../etc/shadow'"),
    "a terminal of the host": ("tty-info.img", "found[0].type = 3"),
}


@pytest.mark.thorough
def test_process_images_that_ask_for_more_are_refused(
    trusting: Holdfast, moment: Moment, hollow: Forgery, tmp_path: Path
) -> None:
    """The content of the images counts, not the bundle's description; none of it reaches the snapshots."""
    before = kept(trusting)
    wrong: dict[str, str] = {}
    changes = [(image.format(pid=moment.pid), change) for image, change in ALTERED.values()]
    for name, (image, _), data in zip(ALTERED, changes, moment.forged(changes), strict=True):
        forgery = copy.deepcopy(hollow)
        forgery.replace(f"images/{image}", data)
        forgery.write(tmp_path / "altered.tar", moment.key)
        try:
            trusting.import_(tmp_path / "altered.tar")
            wrong[name] = "was let in"
        except BundleRefused:
            pass
        except HoldfastError as error:
            wrong[name] = repr(error)
    forgery = copy.deepcopy(hollow)
    forgery.replace("images/pstree.img", b"\xff" * 500)
    forgery.write(tmp_path / "altered.tar", moment.key)
    with pytest.raises(BundleRefused, match="cannot be read"):
        trusting.import_(tmp_path / "altered.tar")

    assert wrong == {}
    assert kept(trusting) == before
