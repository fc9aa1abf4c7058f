"""One value of everything that is stored, with all its fields; `python tests/forms/samples.py` keeps them.

They are written by the code that writes them in use, into the folder `kept/N` with the next number. Earlier
folders are never changed: existing homes and bundles hold these forms.
"""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from holdfast.base.home import Home
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import PathEntry
from holdfast.runtime.history.drift.holdings import HeldKernel, HeldProcess, HeldShell, Holdings, Value
from holdfast.runtime.store import schema
from holdfast.runtime.store.database import Database
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.store.row_details import OperationDetails, SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import OperationKind, OperationRow, SessionRow, SnapshotRow, columns
from holdfast.runtime.transfer import journal_export
from holdfast.snapshots import manifest, record
from holdfast.snapshots.bundle import form
from holdfast.snapshots.failure import Debugger, Failure
from holdfast.snapshots.fitness import Needs
from holdfast.snapshots.machine import MachineFeatures, Vdso
from holdfast.snapshots.manifest import Manifest, Processes, StoredFile
from holdfast.snapshots.record import (
    RecordedDescriptor,
    RecordedFile,
    RecordedProcess,
    RecordedSocket,
    RecordedTerminal,
    RecordedThread,
    RecordedTree,
    StateRecord,
)

KEPT = Path(__file__).parent / "kept"
DATABASE, CONFIG = "holdfast.sql", "config.json"
PACKED = (record.FILE, baseline.FILE, journal_export.FILE)
"""Files that are compressed in use, and text here."""

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
SESSION, SNAPSHOT, EARLIER = "a" * 12, "b" * 12, "c" * 12
CONTAINER = "d" * 64
FAILURE = Failure(
    reason="failed",
    command="make test",
    exit_code=2,
    where="tests/test_it.py::test_it",
    message="AssertionError",
    tail="1 failed\n",
    pulse="bash 7",
    debugger=Debugger(program="pdb", job="t1", command="holdfast-debug 3"),
    job="job 7",
    revision="0123abc",
)
MANIFEST = Manifest(
    format=2,
    id=SNAPSHOT,
    kind="live",
    label="before",
    created_at=AT,
    session=SESSION,
    session_name="work",
    generation=2,
    parent=EARLIER,
    image="sha256:" + "1" * 64,
    options={"memory": 1 << 30, "env": {"KEY": "ü"}, "network": "internet"},
    processes=Processes(
        root_pid=7,
        last_pid=40,
        token="0f" * 16,
        addresses=["172.18.0.2"],
        memory_bytes=1 << 20,
        criu="4.1",
        kernel="6.12.0",
        machine="x86_64",
    ),
    files=[
        StoredFile(name="apart.data", bytes=9, blake3="6" * 64),
        StoredFile(name="apart.json", bytes=99, blake3="7" * 64),
        StoredFile(name="images/pages-1.img", bytes=4096, blake3="2" * 64),
    ],
    failure=FAILURE,
    needs=Needs(
        live=True,
        machine=MachineFeatures(
            arch="x86_64",
            kernel="6.12.0",
            criu="4.1",
            vdso=Vdso(code=4096, data=16384, symbols={"__vdso_time": 10}),
        ),
        uses=["pidfd"],
        memory_bytes=1 << 20,
        engine="28.0",
        holdfast="0.1.0",
    ),
)
THREAD = RecordedThread(
    tid=7,
    uids=(0, 1, 2, 3),
    gids=(4, 5, 6, 7),
    groups=[8],
    inheritable=1,
    permitted=2,
    effective=3,
    bounding=4,
    ambient=5,
    no_new_privs=True,
    securebits=6,
    seccomp=2,
    filters=1,
    filter_digests=["3" * 64],
    label="docker-default",
)
RECORD = StateRecord(
    tree=RecordedTree(
        processes=[
            RecordedProcess(
                pid=7,
                ppid=1,
                pgid=7,
                sid=7,
                state="alive",
                name="bash",
                command="bash -i",
                executable="/bin/bash",
                directory="/srv",
                root="/",
                memory=1 << 20,
                mappings=20,
                dumpable=1,
                threads=[THREAD],
                descriptors=[
                    RecordedDescriptor(
                        fd=3, kind="file", what="/srv/x", offset=9, flags=2, cloexec=True, deleted=True
                    )
                ],
                outside=["user"],
                foreign=["/host"],
                secrets=["TOKEN"],
            )
        ],
        sockets=[
            RecordedSocket(
                id="7/4",
                kind="tcp",
                state="established",
                local="127.0.0.1",
                local_port=80,
                remote="127.0.0.2",
                remote_port=81,
            )
        ],
        terminals=[RecordedTerminal(index=1, session=7, foreground=7, modes="0:1:2:3", rows=24, columns=80)],
        left_out=1,
        init=THREAD,
    ),
    files=[RecordedFile(path="/srv/x", size=9, digest="4" * 64, skipped="changed")],
    kernels={"main": {"epoch": 1, "names": {"x": ["int", "5"]}}},
)
BUNDLE = form.BundleConfig(
    snapshot=MANIFEST,
    base=3,
    segments=[form.LayerSegment(bytes=4096, blake3="5" * 64)],
    files=[
        form.FileInParts(
            name="images/pages-1.img",
            parts=[form.FilePart(segment=0, offset=0, bytes=2048), form.FilePart(bytes=2048)],
        )
    ],
    details={"moment": {"journal_seq": 5, "at": 1.5}, "failure": FAILURE.as_details()},
)
ENTRIES = [
    Entry(SESSION, "work", 1, 1.5, "exec", "agent", details={"command": "make test", "exit_code": 2}),
    Entry(SESSION, "work", 2, 2.5, "changed", None, details={"variables": {"KEY": ["x", 1, "d", "'1'"]}}),
]
BASELINE = Baseline(
    base=EARLIER,
    held=Holdings(
        at=1.5,
        seq=2,
        generation=2,
        processes={7: HeldProcess(pid=7, command="bash", started=1.0, ports=(80,), role="shell", origin="o")},
        shells={
            "main": HeldShell(
                pid=7,
                cwd="/srv",
                umask=18,
                variables={"KEY": Value("x", 1, "d", "1")},
                functions={"f": Value()},
                aliases={"ll": Value("", 5, "e", "ls -l")},
            )
        },
        kernels={"main": HeldKernel(epoch=1, names={"x": ("int", "5")})},
    ),
    table={
        "/srv/x": PathEntry("new", "f", 9, 10, owner=0),
        "/srv/gone": PathEntry("deleted"),
    },
    keys=(("pip", "/usr/lib/python3", "httpx"),),
    versions=("0.28",),
)
SESSIONS = [
    SessionRow(
        id=SESSION,
        name="work",
        state="running",
        image="sha256:" + "1" * 64,
        created_at=AT,
        container_id=CONTAINER,
        parent_snapshot_id=SNAPSHOT,
        generation=2,
        options={"memory": 1 << 30, "env": {"KEY": "ü"}},
        details=SessionDetails(hooks=["failed"], refused={"example.org:443": 1}),
    )
]
SNAPSHOTS = [
    SnapshotRow(
        id=SNAPSHOT,
        label="before",
        kind="live",
        state="ready",
        session_id=SESSION,
        created_at=AT,
        parent_snapshot_id=EARLIER,
        image_id="sha256:" + "1" * 64,
        bytes=4096,
        details=SnapshotDetails(generation=2, moment={"journal_seq": 2, "at": 2.5, "offsets": {"main": 7}}),
        pinned=True,
        reason="before the change",
    )
]
OPERATIONS = [
    OperationRow(
        id="e" * 12,
        kind=OperationKind.SNAPSHOT,
        state="intent",
        owner_pid=7,
        owner_start="boot:1",
        started_at=AT,
        session_id=SESSION,
        snapshot_id=SNAPSHOT,
        ended_at=AT,
        details=OperationDetails(session=SESSION),
    )
]
HOST_ENTRY = {
    "id": 1, "session_id": SESSION, "seq": 2, "host": True, "at": 2.5, "kind": "taken", "actor": "agent",
    "body": '{"label":"before"}',
}  # fmt: skip
BRANCH = {
    "session_id": SESSION, "parent_session_id": "f" * 12, "snapshot_id": SNAPSHOT, "position": 2, "at": 2.5,
}  # fmt: skip


def latest() -> int:
    """Return the number of the newest folder; 0 if there is none."""
    return max((int(folder.name) for folder in KEPT.glob("*")), default=0)


def write(folder: Path) -> None:
    """Write all of it into an empty folder, as text."""
    manifest.write(folder, MANIFEST)
    record.write(folder, RECORD)
    baseline.write(folder, BASELINE)
    (folder / journal_export.FILE).write_bytes(journal_export.pack(ENTRIES, lambda details: details))
    (folder / CONFIG).write_bytes(form.dumps(BUNDLE.model_dump(mode="json")))
    for name in PACKED:
        path = folder / name
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    (folder / DATABASE).write_text(_database())


def _database() -> str:
    """Return the statements that make the database."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").create()
        with Database.open(home.database).writing() as db:
            for table, rows in (
                (schema.SESSIONS, [columns(row) for row in SESSIONS]),
                (schema.SNAPSHOTS, [columns(row) for row in SNAPSHOTS]),
                (schema.OPERATIONS, [columns(row) for row in OPERATIONS]),
                (schema.ENTRIES, [HOST_ENTRY]),
                (schema.BRANCHES, [BRANCH]),
            ):
                db.insert(table, *rows)
        with closing(sqlite3.connect(home.database)) as db:
            statements = sorted(db.iterdump(), key=_is_index)  # indexes are made in any order
            return "\n".join([*statements, f"PRAGMA user_version = {schema.VERSION};", ""])


def _is_index(statement: str) -> tuple[int, str]:
    if statement == "COMMIT;":
        return 2, ""
    return (1, statement) if " INDEX " in statement.split("(")[0] else (0, "")


if __name__ == "__main__":
    made = KEPT / str(latest() + 1)
    made.mkdir(parents=True)
    write(made)
