"""Each kind of resource, both ways: reported obstacles fail without the check, the rest comes back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, LiveUnsupported
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import preflight
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.sessions import session_options

PROGRAM = Path(__file__).parents[2] / "inside" / "holding.py"

# Resources of holding.py, and the kind to be reported for each.
BLOCKS = {
    "deleted_large": "deleted_file_large",
    "deleted_large_in_memory": "deleted_file_large",
    "deleted_large_mapped": "deleted_file_large",
    "watch_proc": "watch_gone",
    "watch_hosts": "watch_gone",
    "memory_file_huge": "nowhere",
    "message_queue": "nowhere",
    "path_to_socket": "path_only",
    "path_to_terminal": "path_only",
    "proc_of_thread": "proc_file_gone",
    "proc_memory": "proc_file_inside",
    "pidfd_first": "pidfd_outside",
    "pidfd_thread": "pidfd_outside",
    "polled_lost": "poll_lost",
    "unix_outside": "unix_outside",
    "unix_outside_datagram": "unix_outside",
    "unix_waiting_data": "unix_waiting",
    "corked": "datagram_corked",
    "netlink_unread": "netlink_unread",
    "traced": "traced",
    "trapped": "trap",
    "headless": "headless",
    "stuck": "stuck",
    "filtered_told": "kernel_object",
}
# With a profile that allows what sessions may not do.
BLOCKS_ALLOWED = {
    "memory_file_secret": "nowhere",
    "vsock": "socket_foreign",
    "multipath": "socket_foreign",
    "ring": "io_uring",
    "counter": "kernel_object",
    "bpf_map": "kernel_object",
    "userfaultfd": "kernel_object",
    "file_system": "kernel_object",
    "unshared_user": "inner_namespace",
    "unshared_network": "inner_namespace",
    "unshared_mounts": "inner_namespace",
    "unshared_name": "inner_namespace",
    "unshared_ipc": "inner_namespace",
    "unshared_cgroup": "inner_namespace",
    "unshared_pids": "inner_namespace",
    "unshared_time": "inner_namespace",
}
SURVIVES = (
    "nothing", "deleted", "deleted_large_linked", "fifo", "locks", "watch", "watch_memory", "memory_file",
    "system_v", "path_to_folder", "proc", "proc_links", "namespace", "pidfd_child", "terminal", "polled",
    "scheduled_io", "null", "random", "listener", "loopback", "not_accepted", "udp", "unix_waiting",
    "unix_passed", "netlink", "ping", "stopped", "zombie", "filtered",
)  # fmt: skip


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with unix sockets of the host."""
    folder = tmp_path_factory.mktemp("outside") / "mounted"
    folder.mkdir()
    with (
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        stream.bind(str(folder / "stream"))
        stream.listen(50)
        datagram.bind(str(folder / "datagram"))
        yield folder


def put_in(session: Session) -> Session:
    text = PROGRAM.read_text()
    assert (
        session.cell(f"from pathlib import Path; Path('/opt/holding.py').write_text({text!r});").error is None
    )
    return session


@pytest.fixture(scope="module")
def plain_session(shared_hf: Holdfast, outside: Path) -> Session:
    return put_in(shared_hf.new("kinds", mounts=[f"{outside}:/mnt/outside"]))


@pytest.fixture(scope="module")
def allowed_session(shared_hf: Holdfast) -> Session:
    """A session without the usual restrictions, to see their effect."""
    ordinary = session_options.container_options

    def more(*arguments: Any, **chosen: Any) -> dict[str, Any]:
        made = ordinary(*arguments, **chosen)
        made.update(security_opt=["seccomp=unconfined", "apparmor=unconfined"], sysctls={})
        made["cap_add"] = [*made["cap_add"], "SYS_ADMIN"]
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provision, "container_options", more)
        return put_in(shared_hf.new("allowed"))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures proceed whatever the check finds."""
    monkeypatch.setattr(preflight, "clear", lambda *_: [])


def hold(session: Session, name: str) -> int:
    """Make a program hold it; return its pid."""
    started = session.exec(
        f"rm -rf /srv/held /srv/holding; setsid python3 /opt/holding.py {name} </dev/null >/srv/log 2>&1 & "
        "for _ in {1..3000}; do [ -e /srv/held ] && break; sleep 0.02; done; cat /srv/log /srv/held",
        timeout=180,
    )
    word, _, rest = started.text.splitlines()[-1].partition(" ")
    assert word == "ready", started.text
    return int(rest)


def let_go(session: Session, pid: int) -> None:
    """End it and everything it started."""
    session.exec(
        f"pkill -KILL -s {pid}; while pgrep -r R,S,D,T,t -s {pid} >/dev/null; do sleep 0.02; done",
        timeout=120,
    )
    session.exec("rm -f /dev/shm/held; true", timeout=60)


def fails(session: Session) -> HoldfastError | None:
    """Return the outcome of a capture and a restore."""
    try:
        taken = session.snapshot()
    except HoldfastError as error:
        return error
    try:
        taken.restore().remove()
    except HoldfastError as error:
        return error
    finally:
        taken.remove()
    return None


def check_blocking(session: Session, name: str, kind: str) -> None:
    pid = hold(session, name)
    try:
        assert {one.kind for one in session.check().blocks} >= {kind}
        error = fails(session)
        assert error is not None, f"{name} was captured and restored"
        if isinstance(error, LiveUnsupported):
            assert error.findings[0]["kind"], str(error)
        assert "CRIU says" not in str(error)
        assert session.exec(f"kill -0 {pid}", timeout=60).ok
    finally:
        let_go(session, pid)
    assert session.check().blocks == ()


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.usefixtures("unchecked")
def test_reported_obstacles_fail_the_capture(plain_session: Session, name: str) -> None:
    """Without the check, the capture or the restore fails, says why, and the session continues."""
    check_blocking(plain_session, name, BLOCKS[name])


@pytest.mark.parametrize("name", BLOCKS_ALLOWED)
@pytest.mark.usefixtures("unchecked")
def test_forbidden_actions_fail_in_sessions(allowed_session: Session, name: str) -> None:
    """The same for calls refused by the profile: a user's own image or profile can allow them."""
    check_blocking(allowed_session, name, BLOCKS_ALLOWED[name])


@pytest.mark.parametrize("name", SURVIVES)
def test_state_reported_to_survive_comes_back(plain_session: Session, name: str) -> None:
    """The copy has the program, and it lives."""
    pid = hold(plain_session, name)
    try:
        assert plain_session.check().blocks == ()
        taken = plain_session.snapshot()
        copy = taken.restore()
        assert copy.exec(f"kill -0 {pid}", timeout=60).ok
        copy.remove()
        taken.remove()
    finally:
        let_go(plain_session, pid)
