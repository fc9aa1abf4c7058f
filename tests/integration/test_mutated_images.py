"""Process images altered as a trusted signer of bundles could: every kind, every field, every byte.

The judge refuses any that ask for more than a session's rights, prints nothing else, and ends; an import
lets nothing of them in; images that it does not refuse are restored for real, and the host is unchanged.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import fnmatch
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.forging import Forgery, Thin

from holdfast.base.home import Home
from holdfast.errors import BundleRefused, HoldfastError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import snapshot_image
from holdfast.runtime.transfer import send
from holdfast.runtime.transfer.outgoing_parts import KINDS, Remembered
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import files, manifest, snapshot_policy
from holdfast.snapshots.bundle import image_layers, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.signing import SigningKey
from holdfast.snapshots.record import RecordedTree

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parents[1] / "inside" / "mutating.py"
# Between them they have every kind of file, timer and memory that an image can have.
PROBES = (
    *("inotify", "posix-timer", "timerfd", "pidfd", "unlinked", "namespaces", "seccomp-filter", "memfd"),
    *("system-v", "fifo", "signalfd", "pipes", "eventfd", "zombie", "flock"),
)
CLIMB = "/proc/self/cwd/../../../proc/2/root"
"""From CRIU's working directory up to the checkpointer's root, and through a kernel thread to the host's."""

# Fields that need no judge, and why: as `image: path`, * stands for anything.
HARMLESS: dict[str, str] = {
    "what the program may do to itself": """
        core: tc.comm core: thread_core.comm core: tc.personality core: tc.flags core: tc.exit_code
        core: tc.*blk_sigset* core: thread_core.*blk_sigset* core: tc.signals_s* core: thread_core.signals_p*
        core: tc.sigactions* core: tc.timers.real* core: tc.timers.virt* core: tc.timers.prof*
        core: tc.timers.posix* core: tc.timers?added core: tc.child_subreaper core: tc.stop_signo
        core: tc.membarrier* core: thread_core.futex* core: thread_core.sas* core: thread_core.pdeath_sig
        core: thread_core.rseq* core: thread_core.timerslack_ns core: thread_core.creds.secbits
        mm: mm_* mm: vmas.start mm: vmas.end mm: vmas.pgoff mm: vmas.prot mm: vmas.flags mm: vmas.madv
        mm: dumpable mm: thp_disabled fs: umask
        files: *.fown.* files: *.pos files: epfd.* files: efd.* files: sgfd.* files: tfd.* files: pipe.*
        files: *.flags files: pidfd.*
        memfd: * tty-info: termios* tty-info: winsize* tty-info: locked tty-info: exclusive
        tty-info: packet_mode tty-info: sid tty-info: pgrp tty-info: pty.index tty-info: id
    """,
    "ids, which a setuid program makes any of": """
        core: thread_core.creds.*id core: thread_core.creds.groups ghost-file: uid ghost-file: gid
        tty-info: uid tty-info: gid files: usk.file_perms* files: isk.uid core: thread_core.creds.no_new_privs
    """,
    "numbers of other entries, each of which is judged": """
        files: *.id files: *_id files: id fs: cwd_id fs: root_id mm: exe_file_id mm: vmas.shmid mm: vmas.fd
        mm: vmas.fdflags remap-fpath: * fdinfo: * pstree: * files: ify.wd.wd files: usk.peer files: *.ino
        ids: vm_id ids: files_id ids: fs_id ids: sighand_id inventory: root_ids.vm_id
        inventory: root_ids.files_id inventory: root_ids.fs_id inventory: root_ids.sighand_id
    """,
    "an entry is made as its type says, and types are judged": """
        files: nsf* files: psk?added files: nlsk?added files: efd?added files: epfd?added files: sgfd?added
        files: tunf?added files: tfd?added files: ify?added files: ffy?added files: ext?added files: fifo*
        files: pipe?added files: tty?added files: memfd?added files: bpf?added files: pidfd?added
        files: reg?added files: usk?added files: isk?added
    """,
    "checked when the file is opened, or not used by a restore": """
        files: reg.size files: reg.mode files: reg.build_id files: reg.checksum* ghost-file: dev
        ghost-file: ino ghost-file: rdev ghost-file: atim* ghost-file: mtim* ghost-file: chunks
        ghost-file: size ghost-file: symlnk_target files: ify.wd.* tty-info: rdev tty-info: dev
        inventory: dump_uptime inventory: pre_dump_mode inventory: dump_criu_run_id inventory: lsmtype
        inventory: compress_block_size core: mtype core: ti_* core: tc?added
        core: thread_core?added core: thread_core.sched_prio core: tc.old_seccomp*
        core: tc.rlimits?added core: tc.signals_s?added
    """,
    "options that any program may set": """
        files: usk.type files: usk.state files: usk.uflags files: usk.backlog files: usk.shutdown
        files: usk.deleted files: *.opts.* files: isk.proto files: isk.state files: isk.*_port
        files: isk.backlog files: isk.*_addr files: isk.v6only files: isk.ip_opts.* files: isk.shutdown
        files: isk.tcp_opts.* files: isk.ifname
    """,
    "cgroups are the container's, as CRIU is told to leave them": """
        core: *cg_set inventory: root_cg_set
    """,
    "a namespace of the tree's own": """
        ids: ipc_ns_id ids: time_ns_id ids: cgroup_ns_id inventory: root_ids.ipc_ns_id
        inventory: root_ids.time_ns_id inventory: root_ids.cgroup_ns_id
    """,
    "network is locked, and unlocked, by tools that CRIU cannot run": "inventory: network_lock_method",
    "has ended, and has no rights": "core: tc.task_state",
    "the program is compared with what a container's filter refuses": "seccomp: seccomp_filters.filter",
    "limits of memory and processes, which the container has as well": "core: tc.rlimits.rlimits.*",
    "taken out on its way (prepared_images.py)": "core: tc.loginuid",
}

# Attempts of someone who knows CRIU: the image, the change to it, and the words of its refusal.
ATTACKS: dict[str, tuple[str, str, str]] = {
    "a socket on the host": (
        "files",
        "one = next(x.usk for x in found if x.HasField('usk'))\n"
        "one.name = b'bound\\0'; one.name_dir = 'CLIMB'",
        "socket bound in",
    ),
    "a host file emptied": (
        "files",
        "next(x.reg for x in found if x.HasField('reg') and x.reg.name == '/dev/null').flags |= 0o1000",
        "with impossible flags for an open file",
    ),
    "a host folder watched": (
        "files",
        "next(x.ify for x in found if x.HasField('ify')).wd[0].f_handle.path = '/' + 'CLIMB'",
        "watches",
    ),
    "a host inode watched": (
        "files",
        "next(x.ify for x in found if x.HasField('ify')).wd[0].f_handle.ClearField('path')",
        "watches a file without a path",
    ),
    "fanotify": ("files", "next(x for x in found if x.HasField('ify')).type = 12", "kind 12"),
    "a raw socket": ("files", "next(x.isk for x in found if x.HasField('isk')).type = 3", "type 3"),
    "marked packets": ("files", "next(x.isk for x in found if x.HasField('isk')).opts.so_mark = 9", "marked"),
    "an alarm": ("files", "next(x.tfd for x in found if x.HasField('tfd')).clockid = 8", "clock 8"),
    "a disk": ("ghost-file-1", "found[0].mode = 0o60666; found[0].rdev = 2048", "device"),
    "a link to the host": (
        "ghost-file-1",
        "found[0].mode = 0o120777; found[0].symlnk_target = 'CLIMB'",
        "link without a name",
    ),
    "real-time priority": ("core-ROOT", "found[0].tc.rlimits.rlimits[14].max = 99", "limit 14"),
    "CRIU's limits": ("core-ROOT", "found[0].tc.ClearField('rlimits')", "the limits"),
    "the first version": ("inventory", "found[0].img_version = 1", "a different version"),
    "a network of its own": ("ids-ROOT", "found[0].net_ns_id += 50", "namespaces of its own"),
    "another magic": ("core-ROOT", "magic = magic[:4] + b'xxxx'", "its kind or version is different"),
    "an unknown mode of seccomp": (
        "core-ROOT",
        "found[0].thread_core.MergeFromString(b'\\x58\\x63')",
        "not in CRIU's format",
    ),
    "a circle of filters": (
        "seccomp",
        "found[0].seccomp_filters[0].prev = 0",
        "precedes itself",
    ),
    "a listener": ("seccomp", "found[0].seccomp_filters[0].flags = 8", "added in a way"),
    "a process twice": ("pstree", "found.append(found[0])", "same pid"),
    "a thread twice": ("pstree", "found[0].threads.append(found[0].threads[0])", "appears twice"),
}
NASTIEST = {
    name: ATTACKS[name] for name in ("a socket on the host", "a disk", "a raw socket", "the first version")
}


@dataclass(frozen=True)
class Corpus:
    """A live snapshot with much in it, and its bundle."""

    hf: Holdfast
    taken: Snapshot
    hollow: Forgery
    key: SigningKey
    root: int

    def run(self, what: str, *given: str) -> list[dict[str, Any]]:
        """Alter its images where the judge runs; see `inside/mutating.py`."""
        [checkpointer] = self.hf.engine.containers(
            holdfast_home=self.hf.home.digest, holdfast_role="checkpointer"
        )
        done = self.hf.engine.client.containers.get(checkpointer).exec_run(
            [
                "/usr/bin/python3",
                "-c",
                PROGRAM.read_text(),
                what,
                f"/state/snapshots/{self.taken.id}/images",
                *given,
            ],
            environment={"PYTHONPATH": "/opt/holdfast/checkpointer"},
            demux=True,
        )
        printed, said = cast(tuple[bytes, bytes], done.output)
        assert done.exit_code == 0, said.splitlines()[-1:]  # before that, names that are not UTF-8
        return [json.loads(line) for line in printed.splitlines()]

    def forged(self, attacks: dict[str, tuple[str, str, str]], canary: Path) -> dict[str, tuple[str, bytes]]:
        """Return the image of each attack."""
        changes = [
            (image.replace("ROOT", str(self.root)), change.replace("CLIMB", f"{CLIMB}{canary}"))
            for image, change, _ in attacks.values()
        ]
        made = self.run("forge", json.dumps(changes))
        return {
            name: (one["name"], base64.b64decode(one["data"]))
            for name, one in zip(attacks, made, strict=True)
        }


@pytest.fixture(scope="module")
def corpus(
    shared: Session,
    shared_hf: Holdfast,
    probes: Callable[[Session], Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Corpus:
    probes(shared).start(shared, *PROBES)
    for step in (
        "echo part > /dev/shm/part && exec 8</dev/null",
        "python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &\nexec 7<>/srv/book",
        "exec 6<>$'/srv/no\\xfftext'",
    ):
        assert shared.exec(step).ok
    shared.wait_port(8000)
    taken = shared.snapshot("corpus")
    keys = Keys(shared_hf.home)
    keys.new()
    key = keys.signer()
    assert key is not None
    # Layers known to be there are not read: compressing the image takes longer than all the rest.
    known = Remembered(shared_hf.home.root / "cache" / "layers.json")
    for layer in image_layers.look(
        shared_hf.engine, snapshot_image.obtain(shared_hf.context, taken.row)
    ).layers:
        known.add(
            f"{KINDS['zstd'][2]} {layer}",
            BlobDescriptor(media.LAYER_ZSTD, layer, 1000, {media.RAW_BYTES: "5000"}),
        )
    file = tmp_path_factory.mktemp("bundles") / "corpus.tar"
    with Thin(file) as destination:
        send.send(shared_hf.context, taken.row, destination, SendOptions(sign=key, compression="zstd"))
    hollow = Forgery(file)
    hollow.empty()
    shared.remove()
    return Corpus(shared_hf, taken, hollow, key, int(hollow.snapshot["processes"]["root_pid"]))


@pytest.fixture(scope="module")
def elsewhere(
    corpus: Corpus, tmp_path_factory: pytest.TempPathFactory, clear: Callable[[Holdfast], None]
) -> Iterator[Holdfast]:
    """Another home, which trusts the key of the first."""
    with Holdfast(Home(tmp_path_factory.mktemp("elsewhere") / "home").create()) as other:
        Keys(other.home).trust(corpus.key.public, "friend")
        yield other
        clear(other)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host that must stay untouched."""
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "canary").write_text("of the host")
    before = state(folder)
    yield folder
    assert state(folder) == before


def state(folder: Path) -> list[tuple[str, int, int, int, bytes]]:
    """Return all of the host that a session could have changed there."""
    found = [folder, *sorted(folder.rglob("*"))]
    return [
        (str(path), one.st_mode, one.st_uid, one.st_ino, path.read_bytes() if path.is_file() else b"")
        for path in found
        for one in [path.lstat()]
    ]


def refused(one: dict[str, Any]) -> bool:
    """Check whether the judge refuses what the checkpointer describes."""
    if "refused" in one:
        return True
    if not one["processes"]:
        return False
    try:
        return bool(
            snapshot_policy.judge(RecordedTree.model_validate({"processes": one["processes"]}), ALLOWED)
        )
    except ValidationError:
        return True


def assert_swept(told: list[dict[str, Any]]) -> None:
    """Assert that each field is judged, or is known not to need a judge."""
    judged: dict[str, bool] = defaultdict(bool)
    for one in told:
        judged[one["field"]] |= refused(one)
    patterns = [f"{kind}: {path}" for text in HARMLESS.values() for kind, path in pairs(text)]
    passed = [field for field, is_ in judged.items() if not is_]
    assert [field for field in passed if not any(fnmatch.fnmatchcase(field, one) for one in patterns)] == []
    assert {field.partition(":")[0] for field in judged} >= {
        "core",
        "files",
        "ids",
        "inventory",
        "mm",
        "seccomp",
    }
    assert sum(judged.values()) > 60


def pairs(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return [(kind.removesuffix(":"), path) for kind, path in zip(words[::2], words[1::2], strict=True)]


def test_every_field_of_an_image_is_judged_or_known_to_be_harmless(corpus: Corpus) -> None:
    """Set to values no session has; also finds a field of a newer CRIU."""
    assert_swept(corpus.run("sweep", "3"))


def test_damaged_images_are_described_or_refused_and_nothing_else(corpus: Corpus) -> None:
    """Bits, lengths, cut short, repeated: no error but the judge's, within its memory and time."""
    told = corpus.run("flip", "1", "400")

    assert len(told) == 400
    assert sum("refused" in one for one in told) > 200
    assert all(isinstance(one.get("refused", ""), str) for one in told)


def test_an_import_refuses_rights_beyond_a_session(
    corpus: Corpus, elsewhere: Holdfast, tmp_path: Path, canary: Path
) -> None:
    """Digests and signature hold, by a trusted key; unaltered ones are imported."""
    wrong: dict[str, str] = {}
    for name, (image, data) in corpus.forged(ATTACKS, canary).items():
        forgery = copy.deepcopy(corpus.hollow)
        forgery.replace(f"images/{image}", data)
        try:
            elsewhere.import_(forgery.write(tmp_path / "forged.tar", corpus.key)).remove()
            wrong[name] = "came in"
        except BundleRefused as error:
            if ATTACKS[name][2] not in str(error):
                wrong[name] = str(error)
    assert wrong == {}
    assert list(elsewhere.home.staging.iterdir()) == []

    elsewhere.import_(corpus.hollow.write(tmp_path / "good.tar", corpus.key)).remove()


def test_a_restore_refuses_altered_images(corpus: Corpus, canary: Path) -> None:
    """In case the home of a snapshot has been written to: nothing starts, and nothing is left."""
    for name, (image, data) in corpus.forged(NASTIEST, canary).items():
        with altered(corpus, image, data), pytest.raises(HoldfastError, match=NASTIEST[name][2]):
            corpus.taken.restore("never")
        assert remains(corpus.hf) == [], name


def test_accepted_images_restore_within_their_rights_or_fail(corpus: Corpus, canary: Path) -> None:
    """Images of all kinds, altered at random."""
    restore_mutants(corpus, seed=1, count=3)


def restore_mutants(corpus: Corpus, seed: int, count: int) -> dict[str, int]:
    """Restore altered snapshots for real; return how many came back, and how many did not."""
    outcomes = {"restored": 0, "failed": 0}
    for one in corpus.run("emit", str(seed), str(count)):
        with altered(corpus, one["name"], base64.b64decode(one["data"])):
            try:
                session = corpus.taken.restore("mutant")
            except HoldfastError as error:
                outcomes["failed"] += 1
                unclear = [one["field"]] if "Traceback" in str(error) else []
            else:
                outcomes["restored"] += 1
                unclear = rights(corpus.hf, session)
                session.remove()
        assert (unclear, remains(corpus.hf)) == ([], []), one["field"]
    good = corpus.taken.restore("good")
    # Its names of files are not all UTF-8.
    assert good.verification is not None
    assert good.verification.deviations == []
    assert good.exec("cat /dev/shm/part").text == "part\n"
    good.remove()
    return outcomes


def rights(hf: Holdfast, session: Session) -> list[str]:
    """Return the rights that threads of a session have beyond the allowed ones, as the host sees them."""
    container = str(session.row.container_id)
    found = []
    for words in hf.engine.client.api.top(container, "-eo pid")["Processes"]:
        process = Path(f"/proc/{words[0].strip()}")
        with contextlib.suppress(OSError):
            # The checkpointer's worker is in the container's cgroups until it ends, not in its namespaces.
            if (process / "ns/pid").readlink() == Path("/proc/self/ns/pid").readlink():
                continue
            for status in (process / "task").glob("*/status"):
                found += beyond(status.read_text())
    return found


def beyond(status: str) -> list[str]:
    """Return a thread's rights in excess of a session's."""
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    found = [
        f"{lines['Name']}: {name} {lines[name]}"
        for name in ("CapBnd", "CapPrm", "CapEff", "CapInh", "CapAmb")
        if int(lines[name], 16) & ~ALLOWED.capabilities
    ]
    return found + (
        [f"{lines['Name']}: no seccomp"] if lines["State"][0] != "Z" and lines["Seccomp"] != "2" else []
    )


def remains(hf: Holdfast) -> list[str]:
    """Return the possible leftovers of a restore: containers, its folder, processes in the checkpointer."""
    found = [
        f"container {one}"
        for one in hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")
    ]
    found += [str(path) for path in (hf.home.root / "scratch").glob("*")]
    found += [str(path) for path in hf.home.staging.iterdir()]
    for one in hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer"):
        running = hf.engine.client.api.top(one, "-eo pid,comm")["Processes"]
        found += [" ".join(process) for process in running if process[1] == "criu"]
    return found


@contextlib.contextmanager
def altered(corpus: Corpus, image: str, data: bytes) -> Iterator[None]:
    """Put another image in the home, with its digest in the manifest; restore the snapshot afterwards."""
    folder = corpus.hf.home.snapshots / corpus.taken.id
    path, described = folder / "images" / image, folder / manifest.FILE
    before, text = path.read_bytes(), described.read_bytes()
    kept = json.loads(text)
    details = corpus.hf.store.snapshot(corpus.taken.id).details
    replace(path, data)
    for entry in kept["files"]:
        if entry["name"] == f"images/{image}":
            entry["bytes"], entry["blake3"] = len(data), files.digest(path)
    described.write_text(json.dumps(kept))
    try:
        yield
    finally:
        replace(path, before)
        described.write_bytes(text)
        corpus.hf.store.update_snapshot(corpus.taken.id, state="ready", details=details)


def replace(path: Path, data: bytes) -> None:
    """Put a different file under that name: files that restores have linked stay unchanged."""
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(data)
    fresh.replace(path)
