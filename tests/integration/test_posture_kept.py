"""A session's rights are the same after every way back: restored, forked, rewound, or only its files.

The host checks each process and thread, PID 1 among them; a program in the session tries forbidden actions.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import layout

FORBIDDEN = Path(__file__).parents[1] / "inside" / "forbidden.c"
RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp", "Seccomp_filters", "NoNewPrivs")
# A restored tree has these of its own; a new session shares them with PID 1 or, for time, with the host.
ITS_OWN = ("ipc", "time", "time_for_children")
BACK: dict[str, Callable[[Holdfast], Session]] = {
    "restored": lambda hf: hf.snapshot("taken").restore("restored"),
    "forked": lambda hf: hf.session("parent").fork(1, "forked")[0],
    "files": lambda hf: hf.snapshot("files").restore("files"),
    "rewound": lambda hf: rewound(hf.session("parent")),
}


def rewound(session: Session) -> Session:
    session.rewind("taken")
    return session


def pids(hf: Holdfast, session: Session) -> list[int]:
    """Return the processes of a session by the host's numbers, PID 1 first."""
    told = hf.engine.client.api.top(str(session.row.container_id), "-eo pid")["Processes"]
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    # The checkpointer's worker is in the container's cgroups until it ends, not in its namespaces.
    ours = Path("/proc/self/ns/pid").readlink()
    inside = {int(words[0]) for words in told if _pid_namespace(words[0]) not in (ours, None)}
    return [state.pid, *sorted(inside - {state.pid})]


def _pid_namespace(pid: str) -> Path | None:
    try:
        return Path(f"/proc/{pid.strip()}/ns/pid").readlink()
    except OSError:
        return None


def fields(path: Path) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)


def threads(found: list[int]) -> Iterator[tuple[str, ...]]:
    """Return the rights of each thread, and whether it is PID 1's."""
    for pid in found:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            told = fields(status)
            if told["State"][0] != "Z":
                yield ("PID 1" if pid == found[0] else "other", *(told[name] for name in RIGHTS))


def namespaces(found: list[int]) -> Iterator[tuple[str, str]]:
    """Return the namespaces of each process: PID 1's, the host's, or others."""
    init, host = Path(f"/proc/{found[0]}/ns"), Path("/proc/self/ns")
    for pid in found:
        for one in Path(f"/proc/{pid}/ns").iterdir():
            try:
                mine, theirs, ours = ((where / one.name).readlink() for where in (one.parent, init, host))
            except FileNotFoundError:  # a process that has just ended
                continue
            if one.name in ITS_OWN:
                if one.name == "ipc":
                    yield one.name, "the host's" if mine == ours else "not the host's"
            else:
                yield one.name, f"{'as' if mine == theirs else 'not as'} PID 1, host's: {theirs == ours}"


def mounts(init: int) -> Iterator[tuple[str, ...]]:
    """Return the mounts, with their sources and options."""
    for line in Path(f"/proc/{init}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        place, options = before.split()[4:6]
        if place.startswith(layout.FIRST_PROCESS):  # its name is drawn for each container
            place = layout.FIRST_PROCESS
        kind = after.split()[0]
        yield place, options, kind, after.split()[2] if kind in ("tmpfs", "proc", "sysfs", "devpts") else ""


def devices(init: int) -> Iterator[tuple[str, str, int]]:
    for one in Path(f"/proc/{init}/root/dev").iterdir():
        state = one.lstat()
        first = str(Path("/dev", one.name)).startswith(layout.FIRST_PROCESS)
        yield layout.FIRST_PROCESS if first else one.name, stat.filemode(state.st_mode), state.st_rdev


def posture(hf: Holdfast, session: Session) -> dict[str, Any]:
    """Return all of it, without whatever names a container."""
    found = pids(hf, session)
    container = str(session.row.container_id)
    return {
        "threads": set(threads(found)),
        "namespaces": set(namespaces(found)),
        "ids": {Path(f"/proc/{pid}/{name}").read_text() for pid in found for name in ("uid_map", "gid_map")},
        "cgroups": {Path(f"/proc/{pid}/cgroup").read_text().replace(container, "") for pid in found},
        "limits": {Path(f"/proc/{pid}/limits").read_text() for pid in found},
        "mounts": set(mounts(found[0])),
        "devices": set(devices(found[0])),
        "calls": session.exec("/srv/forbidden", timeout=60).text,
        "network": session.exec(
            "cat /proc/net/route; ip -br link | wc -l; ip route get 169.254.169.254 | sed 's/src [0-9.]*//'"
        ).text,
    }


@pytest.fixture(scope="module")
def fresh(shared_hf: Holdfast) -> dict[str, Any]:
    """Return the posture of a new session with snapshots to return to."""
    parent = shared_hf.new("parent")
    text = FORBIDDEN.read_text()
    made = parent.exec(
        f"cat > /srv/x.c <<'END'\n{text}\nEND\ngcc -static -o /srv/forbidden /srv/x.c", timeout=120
    )
    assert made.ok, made.text
    found = posture(shared_hf, parent)
    parent.snapshot("taken")
    parent.snapshot("files", kind="filesystem")
    return found


def test_attempts_to_leave_the_container_fail(fresh: dict[str, Any]) -> None:
    """Each call by its number, from a program without a library in between."""
    told = [line.split() for line in fresh["calls"].splitlines()]

    assert len(told) > 45
    assert {name: error for name, error in told if error not in ("EPERM", "ENOSYS", "EACCES")} == {}


@pytest.mark.parametrize("way", BACK)
def test_a_returning_session_has_the_rights_of_a_new_one(
    shared_hf: Holdfast, fresh: dict[str, Any], way: str
) -> None:
    """Rights of every thread, namespaces, ids, cgroups, limits, mounts, devices, calls, routes: all equal."""
    session = BACK[way](shared_hf)

    found = posture(shared_hf, session)

    assert {name: (found[name], fresh[name]) for name in fresh if found[name] != fresh[name]} == {}
    if way != "rewound":
        session.remove()
