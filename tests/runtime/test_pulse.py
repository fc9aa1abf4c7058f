"""The host's reading of a pulse: of a valid one, and of a hostile guest's."""

import copy
import json
from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.api import pulse_calls
from holdfast.runtime.cli import pulse_verbs
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.starting_point import StartingPoint
from holdfast.runtime.pulse import pulse_text
from holdfast.runtime.pulse.limits import Lineage, disk
from holdfast.runtime.pulse.pulse import Listener, Port, Pulse

LINEAGE = Lineage("0123456789ab", "work", 2, "before", "image:tag", "2026-01-01T00:00:00+00:00")
ORIGIN = {"kind": "command", "id": "c1", "command": "make serve", "actor": "agent"}


def process(pid: int, ppid: int, command: str = "sleep 9", **more: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "ppid": ppid,
        "group": pid,
        "session": pid,
        "state": "sleeping",
        "name": command.split()[0],
        "command": command,
        "uid": 0,
        "user": "root",
        "terminal": "pts/0",
        "cpu_seconds": 1.5,
        "cpu_percent": 12.5,
        "cpu_over": 2.0,
        "resident": 5_000_000,
        "virtual": 9_000_000,
        "threads": 1,
        "age": 61.0,
        "descriptors": 4,
        "origin": None,
        **more,
    }


RAW: dict[str, Any] = {
    "at": 1000.0,
    "took": 0.004,
    "uptime": 100.0,
    "limits": {
        "version": 2,
        "memory": {"used": 5_000_000, "usage": 6_000_000, "limit": 10_000_000, "oom_kills": 1},
        "cpu": {"limit": 1.5, "seconds": 3.0, "throttled_seconds": 0},
        "pids": {"current": 5, "limit": 100},
        "processors": 2,
        "pressure": {"memory": {"some_avg10": 1.5}, "cpu": None, "io": None},
        "pressure_of": "session",
    },
    "processes": {
        "rows": [
            process(1, 0, "init"),
            process(9, 1, "bash"),
            process(12, 9, "server --port 80", origin=ORIGIN),
            process(10, 12, "worker", origin=ORIGIN),
        ],
        "left_out": 3,
    },
    "files": {
        "rows": [
            {
                "pid": 12,
                "fd": 5,
                "path": "/data/db",
                "kind": "file",
                "size": 100,
                "deleted": True,
                "offset": 7,
                "access": "rw",
                "flags": ["append"],
                "locks": [{"kind": "posix", "mode": "write", "pid": 12, "start": 0, "end": None}],
            }
        ],
        "others": [{"pid": 12, "fd": 0, "path": "/dev/null", "kind": "device"}],
        "left_out": 0,
        "unseen": [10],
    },
    "sockets": {
        "rows": [
            {
                "protocol": "tcp",
                "state": "listening",
                "local": "0.0.0.0",
                "local_port": 80,
                "receive_queue": 2,
                "inode": 5,
                "owners": [{"pid": 12, "fd": 3}],
            },
            {"protocol": "unix", "state": "listening", "path": "/run/x", "inode": 6, "owners": []},
        ],
        "left_out": 0,
    },
    "terminals": [
        {
            "shell": "main",
            "pid": 9,
            "name": "pts/0",
            "rows": 40,
            "cols": 120,
            "modes": {"echo": False, "canonical": True, "signals": True, "raw": False},
            "foreground": 12,
            "command": "su",
            "exec": "c1",
            "observed": {
                "state": "waiting",
                "detail": "password",
                "pid": 12,
                "command": "su",
                "since": 990.0,
            },
            "alternate_screen": True,
            "cwd": "/work\x1b[2Jspace",
            "variables": 3,
            "exported": 2,
            "functions": 1,
            "aliases": 0,
            "output_offset": 77,
            "holder": "person:alice",
            "attached": ["person:alice"],
        }
    ],
    "kernels": [
        {
            "name": "main",
            "spec": "python3",
            "pid": 8,
            "state": "idle",
            "observed": {"state": "idle"},
            "execution_count": 4,
            "epoch": 1,
            "variables": {
                "rows": [
                    {"name": "m", "type": "module", "kind": "module", "identity": 1},
                    {
                        "name": "a",
                        "type": "numpy.ndarray",
                        "kind": "value",
                        "shape": [3, 4],
                        "dtype": "float64",
                    },
                    {"name": "x", "type": "list", "kind": "value", "length": 3},
                ],
                "left_out": 0,
                "as_of": 4,
                "current": True,
                "note": "",
            },
        }
    ],
}


def read(**changes: Any) -> Pulse:
    return Pulse.of({**RAW, **changes}, LINEAGE)


def test_a_pulse_has_lookups() -> None:
    """Processes, their tree, listeners and files are found without searching lists."""
    found = read()
    server = found.process(12)
    assert server is not None
    assert server.origin is not None
    assert server.origin.command == "make serve"
    assert found.process(99) is None
    assert [(depth, each.pid) for depth, each in found.tree()] == [(0, 1), (1, 9), (2, 12), (3, 10)]
    assert [each.pid for each in found.children(12)] == [10]
    assert [each.owners[0].pid for each in found.listening(80)] == [12]
    assert (found.listening(81), len(found.listening())) == ((), 1)
    (file,) = found.opened("/data/db")
    assert (file.deleted, file.locks[0].mode, file.locks[0].end) == (True, "write", None)
    assert found.memory is not None
    assert found.memory.limit == 10_000_000
    assert (found.left_out.processes, found.unseen) == (3, (10,))


def test_json_has_stable_names() -> None:
    """The names of the JSON match the documentation."""
    told = json.loads(json.dumps(read().as_dict()))
    assert set(told) == {
        "id",
        "name",
        "at",
        "took",
        "uptime",
        "lineage",
        "limits",
        "processes",
        "files",
        "descriptors",
        "sockets",
        "terminals",
        "kernels",
        "left_out",
        "unseen",
        "disk",
        "detail",
        "file",
    }
    assert told["terminals"][0]["observed"]["detail"] == "password"
    assert told["kernels"][0]["variables"]["rows"][1]["shape"] == [3, 4]


def test_parts_not_requested_are_empty() -> None:
    """An answer with one part is also a pulse."""
    found = Pulse.of({"at": 1.0, "took": 0.1, "uptime": None}, LINEAGE)
    assert (found.processes, found.limits, found.uptime) == ((), None, None)
    assert pulse_text.whole(found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("processes", "rows"), {}),
        (("processes", "rows", 0), "text"),
        (("processes", "rows", 0, "pid"), -1),
        (("processes", "rows", 0, "pid"), True),
        (("processes", "rows", 0, "command"), 5),
        (("processes", "rows", 0, "age"), 1e300),
        (("processes", "rows", 2, "origin"), []),
        (("files", "rows", 0, "locks"), [1]),
        (("files", "rows", 0, "flags"), [None]),
        (("files", "unseen"), ["x"]),
        (("sockets", "rows", 0, "owners"), {}),
        (("limits", "memory"), None),
        (("limits", "pressure"), []),
        (("limits", "pressure", "memory"), [1]),
        (("terminals", 0, "modes"), {"echo": 1}),
        (("terminals", 0, "observed"), {"state": "dancing"}),
        (("kernels", 0, "variables", "rows", 1, "shape"), ["3"]),
        (("kernels", 0, "variables"), []),
    ],
)
def test_unexpected_replies_are_errors(path: tuple[Any, ...], value: Any) -> None:
    """A field of an unexpected kind ends the call with an error of ours, wherever it is."""
    raw = copy.deepcopy(RAW)
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ProtocolError):
        Pulse.of(raw, LINEAGE)


def test_a_circular_tree_ends() -> None:
    """Processes that claim to be their own parents cause no endless loop."""
    found = read(processes={"rows": [process(5, 5), process(6, 7), process(7, 6)], "left_out": 0})
    assert len(list(found.tree())) <= 3


def test_one_screen_shows_everything() -> None:
    """Waits, listeners, locks, names; without control characters."""
    text = "\n".join(pulse_text.whole(read()))
    for expected in (
        "from snapshot before",
        "memory 5 MB of 10 MB, 1 killed for lack of memory",
        "su (pid 12) waits for a password",
        "echo off",
        "full screen",
        "held by person:alice",
        "names: x list 3; a ndarray 3x4 float64; modules m",
        "< command make serve",
        "and 3 more",
        "tcp listens 0.0.0.0:80 · server (12) · 2 waiting",
        "/data/db · rw at 7 of 100, write lock (posix), deleted · server (12) fd 5",
    ):
        assert expected in text
    assert "\x1b" not in text
    assert text.count("< command make serve") == 1


def test_lines_are_cut_to_the_screen() -> None:
    """On a narrow screen no line is longer than it, and the number of processes is bounded."""
    many = {"rows": [process(pid, 1, "x" * 300) for pid in range(2, 80)], "left_out": 0}
    lines = "\n".join(pulse_text.whole(read(processes=many), width=60, most=10)).split("\n")
    assert max(map(len, lines)) <= 61
    assert any("and 68 more" in line for line in lines)


def test_answers_about_a_port() -> None:
    """Nothing there, a process that answers, and one that does not, each in one line."""
    found = read()
    (socket,) = found.listening(80)
    owner = found.process(12)
    (nobody,) = pulse_verbs.port_lines(Port(80, ()))
    assert nobody == "port 80: nothing listens"
    good = Port(80, (Listener(socket, owner, "accepted", 200, "HTTP/1.1 200 OK"),))
    (line,) = pulse_verbs.port_lines(good)
    assert "server --port 80 (pid 12, root) · started 1 min ago · by command make serve" in line
    assert "answers: HTTP/1.1 200 OK" in line
    stuck = Port(80, (Listener(socket, owner, "timeout"),))
    assert "does not answer · 2 connections wait" in next(pulse_verbs.port_lines(stuck))
    assert (good.answers, stuck.answers) == (True, False)


def test_answers_about_a_process() -> None:
    """Everything that belongs to it; or that there is none."""
    detail = {"cwd": "/work", "exe": "/bin/x", "memory": {"proportional": 9}, "io": {}, "limits": {}}
    text = "\n".join(pulse_verbs.process_lines(Pulse.of({**RAW, "detail": detail}, LINEAGE, 12), 12))
    for expected in ("in /work · program /bin/x", "children worker (10)", "tcp listens", "0 /dev/null"):
        assert expected in text
    assert list(pulse_verbs.process_lines(read(), 99)) == ["process 99: there is no such process"]
    assert "cannot be seen" in "\n".join(pulse_verbs.process_lines(read(), 10))


def test_changes_since_a_snapshot_come_from_the_drift() -> None:
    """Changed files are counted, without folders; deleted ones do not have bytes."""
    files = (
        FileChange("/a", "new", 4096, folder=True),
        FileChange("/a/new", "new", 10),
        FileChange("/a/big", "changed", 4000),
        FileChange("/b", "deleted"),
    )
    drift = Drift("work", StartingPoint("before", 1.0, 1), 2.0, files)
    found = pulse_calls.with_drift(read(), drift).disk
    assert found is not None
    assert (found.since, found.added, found.changed, found.deleted) == ("before", 1, 1, 1)
    assert [each.path for each in found.top] == ["/a/big", "/a/new"]


def test_changes_on_disk_are_summed_up() -> None:
    """Folders named for their content do not count; the largest files are on top."""
    changes = [("/a", 0), ("/a/new", 1), ("/a/big", 1), ("/b", 2), ("/c", 0)]
    found = disk("image", 5000, changes, {"/a/new": 10, "/a/big": 4000})
    assert (found.added, found.changed, found.deleted) == (2, 1, 1)
    assert [each.path for each in found.top] == ["/a/big", "/a/new"]
