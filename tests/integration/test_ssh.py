"""Sessions reached by ssh, with the clients of Debian: commands, files, forwarding, snapshots, copies."""

from __future__ import annotations

import filecmp
import json
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.conftest import Cli, Started
from tests.integration.served import Over, Served
from websockets.sync.client import connect

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.lifetimes.time_unused import last_use
from holdfast.runtime.sessions import ssh_access

PATIENCE = 120
MIB = 1 << 20


class Ssh:
    """OpenSSH's client as `ssh-config` sets it up, and programs that use it."""

    def __init__(self, config: Path, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.config, self.folder = config, folder
        self._environment = {**os.environ, "GIT_SSH_COMMAND": f"ssh -F {config}", **(environment or {})}

    def words(self, *words: str) -> list[str]:
        return ["ssh", "-F", str(self.config), *words]

    def __call__(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return self.other(*self.words(*words), given=given)

    def other(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.folder,
            env=self._environment,
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[Started]:
        with Started(
            self.words(*words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
        ) as started:
            yield started
            started.kill()


@pytest.fixture(scope="module")
def ssh(shared: Session, shared_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Ssh:
    told = Cli(shared_home)("ssh-config")
    assert told.code == 0
    folder = tmp_path_factory.mktemp("ssh")
    config = folder / "config"
    config.write_text(told.out)
    return Ssh(config, folder)


def until_line(started: Started, wanted: bytes) -> None:
    """Read what a client shows up to a line that ends so."""
    assert started.stdout is not None
    seen = b""
    while not any(line.rstrip().endswith(wanted) for line in seen.splitlines()):
        assert select.select([started.stdout], [], [], PATIENCE)[0], seen
        data = os.read(started.stdout.fileno(), 4096)
        assert data, seen
        seen += data


def test_a_command_has_its_input_its_output_and_its_exit_code(ssh: Ssh, shared: Session) -> None:
    """By the environment of the session, as its user; nothing listens, and the journal names who came."""
    said = "cat; echo $HOLDFAST_NAME >&2; command -v python3; id -un; exit 7"
    done = ssh("shared.holdfast", said, given=b"given\n")
    assert (done.returncode, done.stderr) == (7, b"shared\n")
    assert done.stdout.decode().split() == ["given", "/opt/python/bin/python3", "root"]
    assert not [each for each in shared.ports() if "sshd" in each.program]
    kinds = [each.kind for each in shared.journal()]
    assert kinds.count("ssh_opened") == 1
    assert polling.until(lambda: [each.kind for each in shared.journal()].count("ssh_closed") == 1, PATIENCE)


def test_files_pass_by_sftp_scp_and_rsync(ssh: Ssh, shared: Session) -> None:
    sent = ssh.folder / "sent"
    sent.write_bytes(os.urandom(10 * MIB))
    batch = "put sent /tmp/by-sftp\nget /tmp/by-sftp back\n"
    done = ssh.other("sftp", "-F", str(ssh.config), "-b", "-", f"{shared.id}.holdfast", given=batch.encode())
    assert done.returncode == 0, done.stderr
    assert filecmp.cmp(sent, ssh.folder / "back", shallow=False)
    done = ssh.other("scp", "-q", "-F", str(ssh.config), "shared.holdfast:/tmp/by-sftp", "by-scp")
    assert done.returncode == 0, done.stderr
    assert filecmp.cmp(sent, ssh.folder / "by-scp", shallow=False)
    tree = ssh.folder / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file with a blank").write_text("x")
    rsync = ("rsync", "-a", "-e", f"ssh -F {ssh.config}")
    for source, target in (("tree/", "shared.holdfast:/tmp/tree/"), ("shared.holdfast:/tmp/tree/", "again/")):
        done = ssh.other(*rsync, source, target)
        assert done.returncode == 0, done.stderr
    assert (ssh.folder / "again" / "below" / "file with a blank").read_text() == "x"


def test_git_clones_from_a_session(ssh: Ssh, shared: Session) -> None:
    commit = "git -C /tmp/app -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    assert shared.exec(f"git init -q /tmp/app && {commit}").exit_code == 0
    done = ssh.other("git", "clone", "-q", "shared.holdfast:/tmp/app", "app")
    assert done.returncode == 0, done.stderr
    assert ssh.other("git", "-C", "app", "log", "--format=%s").stdout == b"one\n"


def test_ports_are_forwarded_both_ways_beside_other_connections(ssh: Ssh, shared: Session) -> None:
    """`-L` leads into the session, `-R` out of it."""
    job = shared.detach("python3 -m http.server -b 127.0.0.1 -d /etc 8123")
    shared.wait_port(8123)
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("127.0.0.1", 0)) as free:
        local, port = free.getsockname()[1], here.getsockname()[1]
        free.close()
        forwards = ("-L", f"127.0.0.1:{local}:127.0.0.1:8123", "-R", f"8124:127.0.0.1:{port}")
        with ssh.running(*forwards, "shared.holdfast", "echo ready; cat") as started:
            until_line(started, b"ready")
            with socket.create_connection(("127.0.0.1", local)) as asked:
                asked.settimeout(PATIENCE)
                asked.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: asked.recv(MIB), b""))
            assert answer.endswith(b"shared\n")
            assert ssh("shared.holdfast", "printf hello >/dev/tcp/127.0.0.1/8124").returncode == 0
            here.settimeout(PATIENCE)
            with here.accept()[0] as came:
                came.settimeout(PATIENCE)
                assert came.recv(5) == b"hello"
    job.signal("KILL")


def test_a_connection_is_a_use_as_long_as_it_lasts(ssh: Ssh, shared: Session) -> None:
    def unused() -> float | None:
        return last_use(shared._line)

    with ssh.running("shared.holdfast", "echo ready; cat") as started:
        until_line(started, b"ready")
        assert unused() is None
    assert polling.until(lambda: unused() is not None, PATIENCE)


def test_the_shared_shell_is_joined(ssh: Ssh, shared: Session) -> None:
    """Its variables are there, `C-]` leaves it, and it continues."""
    shared.exec("shared_variable=of-the-agent")
    with ssh.running("-tt", "shared.holdfast", "holdfast-shell") as started:
        assert started.stdin is not None
        until_line(started, b"#")
        started.stdin.write(b"echo it is $shared_variable.\r")
        started.stdin.flush()
        until_line(started, b"it is of-the-agent.")
        started.stdin.write(b"\x1d")
        started.stdin.flush()
        assert started.wait(PATIENCE) == 0
    assert shared.exec("echo $shared_variable").text.strip() == "of-the-agent"
    done = ssh("shared.holdfast", "holdfast-shell")
    assert done.returncode == 1
    assert b"cannot join without a terminal: use `ssh -t`" in done.stderr


def test_a_snapshot_ends_connections_and_nothing_else(ssh: Ssh, shared: Session, shared_hf: Holdfast) -> None:
    """A terminal's shell ends with its connection; detached processes continue, here and in the copy."""
    with ssh.running("-tt", "shared.holdfast") as started:
        assert started.stdin is not None
        started.stdin.write(b"setsid sleep 4321 </dev/null >/dev/null 2>&1 & sleep 0.5; echo rea''dy\r")
        started.stdin.flush()
        until_line(started, b"ready")
        snapshot = shared.snapshot()
        out, err = started.communicate(timeout=PATIENCE)
        assert started.returncode == 255
        assert b"the connection to session shared has ended, as with every snapshot" in err, (out, err)
    assert ssh("shared.holdfast", "true").returncode == 0
    copy = snapshot.restore("copied")
    for session in (shared, copy):
        found = session.exec("pgrep -x -c sshd-session; pgrep -f -c '^sleep 4321'").text.split()
        assert found == ["0", "1"]
    shared.exec("pkill -f '^sleep 4321'")
    copy.remove()
    snapshot.remove()


def test_a_copy_is_another_host_that_is_known(ssh: Ssh, shared: Session, shared_home: Home) -> None:
    (copy,) = shared.fork()
    try:
        done = ssh(f"{copy.name}.holdfast", "cat $HOLDFAST_IDENTITY")
        assert done.returncode == 0, done.stderr
        assert copy.id.encode() in done.stdout
        known = (shared_home.root / "ssh" / "known_hosts").read_text().splitlines()
        keys = {line.split()[3]: line.split()[2] for line in known}
        assert keys[copy.name] != keys["shared"]
    finally:
        copy.remove()


def test_a_session_that_poses_as_another_is_refused(ssh: Ssh, shared_home: Home) -> None:
    """The answering session must have the known key: here it has a different one."""
    known, config = ssh.folder / "known", ssh.folder / "posing"
    known.write_text(f"shared.holdfast {ssh_access.client_key(shared_home)}\n")
    config.write_text(ssh.config.read_text().replace(f"{shared_home.root}/ssh/known_hosts", str(known)))
    done = ssh.other("ssh", "-F", str(config), "shared.holdfast", "true")
    assert done.returncode == 255
    assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_nothing_of_a_connection_is_left(ssh: Ssh, shared: Session) -> None:
    """While it lasts, neither its private key nor its settings are in a file; afterwards nothing is."""
    with ssh.running("shared.holdfast", "echo ready; cat") as started:
        until_line(started, b"ready")
        during = shared.exec("find /var/lib/holdfast/ssh -type f -printf '%f\\n' | sort").text.split()
        assert during == ["client_keys", "said"]
        assert shared.exec("grep -r 'PRIVATE KEY' /var/lib/holdfast/ssh").exit_code == 1
    polling.until(lambda: not shared.exec("find /var/lib/holdfast/ssh -type f").text.strip(), PATIENCE)
    assert shared.exec("find /var/lib/holdfast/ssh -mindepth 1").text.strip() == ""


@pytest.mark.parametrize("host", ["-oProxyCommand=id.holdfast", "$(id).holdfast", "work", "none.holdfast"])
def test_names_of_no_session_are_refused_in_a_line(shared_cli: Cli, host: str) -> None:
    done = shared_cli("ssh-proxy", "--", host)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("holdfast: cannot ")


def test_a_broken_server_is_reported(shared: Session, ssh: Ssh) -> None:
    """Root in the session can break it; others of the session are not affected."""
    shared.exec("mv /opt/holdfast/ssh/sshd /opt/holdfast/ssh/kept")
    try:
        done = ssh("shared.holdfast", "true")
        assert done.returncode == 255
        assert b"lacks an ssh server" in done.stderr
    finally:
        shared.exec("mv /opt/holdfast/ssh/kept /opt/holdfast/ssh/sshd")


@pytest.fixture
def far(server: Served, tmp_path: Path) -> Callable[..., Ssh]:
    """Set up ssh on a machine that has the URL of the server and a key, or its token."""

    def made(key: str | None = None, domain: str = "build") -> Ssh:
        folder = tmp_path / (key or "own")[-8:]
        folder.mkdir()
        over = Over(server, folder / "home")
        over.environment["HOLDFAST_TOKEN"] = key or server.token
        (folder / "config").write_text(over("ssh-config", "--domain", domain))
        assert server.token not in (folder / "config").read_text()
        return Ssh(folder / "config", folder, {"HOLDFAST_TOKEN": over.environment["HOLDFAST_TOKEN"]})

    return made


def test_a_session_behind_a_url_is_reached_as_one_here(
    far: Callable[..., Ssh], shared: Session, shared_hf: Holdfast
) -> None:
    """Commands, files, ports and a proxy of SOCKS, as editors over ssh use them; until a snapshot."""
    ssh = far()
    script = b"cat > /tmp/server <<'X'\necho server-of-$1\nX\nsh /tmp/server me; exit 7\n"
    done = ssh("shared.build", "bash -s", given=script)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"server-of-me\n", b"")
    sent = ssh.folder / "sent"
    sent.write_bytes(os.urandom(3 * MIB))
    for words in (
        ("scp", "-q", "-F", str(ssh.config), "sent", "shared.build:/tmp/far"),
        ("rsync", "-e", f"ssh -F {ssh.config}", "shared.build:/tmp/far", "back"),
    ):
        done = ssh.other(*words)
        assert done.returncode == 0, done.stderr
    assert filecmp.cmp(sent, ssh.folder / "back", shallow=False)

    job = shared.detach("python3 -m http.server -b 127.0.0.1 -d /etc 8125")
    shared.wait_port(8125)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        local, socks = one.getsockname()[1], two.getsockname()[1]
    forwards = ("-L", f"127.0.0.1:{local}:127.0.0.1:8125", "-D", f"127.0.0.1:{socks}")
    with ssh.running(*forwards, "shared.build", "echo ready; cat") as started:
        until_line(started, b"ready")
        for port, hello in (
            (local, b""),
            (socks, b"\5\1\0\5\1\0\3\x09localhost" + (8125).to_bytes(2, "big")),
        ):
            with socket.create_connection(("127.0.0.1", port)) as asked:
                asked.settimeout(PATIENCE)
                asked.sendall(hello + b"GET /hostname HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: asked.recv(MIB), b""))
            assert answer.endswith(b"shared\n")
        snapshot = shared.snapshot()
        out, err = started.communicate(timeout=PATIENCE)
        assert b"the connection to session shared has ended, as with every snapshot" in err, (out, err)
    snapshot.remove()
    job.signal("KILL")
    came = [each.as_dict().get("actor") for each in shared.journal(kinds=["ssh_opened"])]
    assert came[-1] in ("agent:api", "person:root", "agent:cli"), came


def test_over_a_url_a_key_needs_the_right_to_run_commands_and_ends_its_connections(
    far: Callable[..., Ssh], shared: Session, shared_cli: Cli
) -> None:
    viewer = shared_cli("access", "new", "looker", "--role", "viewer").out.strip()
    done = far(viewer)("shared.build", "true")
    assert done.returncode == 255
    assert b"the key looker lacks the scope sessions:exec" in done.stderr
    one = shared_cli("access", "new", "elsewhere", "--session", shared.name).out.strip()
    assert b"cannot find session 'other'" in far(one)("other.build", "true").stderr
    ssh = far(shared_cli("access", "new", "leaver").out.strip())
    with ssh.running("shared.build", "echo ready; cat") as started:
        until_line(started, b"ready")
        shared_cli("access", "rm", "leaver")
        assert started.stderr is not None
        assert b"the key is revoked" in started.stderr.read()
    assert b"cannot answer" in ssh("shared.build", "true").stderr


@pytest.mark.parametrize(
    "first", ['{"client_key": "command=\\"id\\" ssh-ed25519 AAAA"}', "{}", "[", "x" * 5000], ids=str.__len__
)
def test_a_first_message_that_names_no_key_is_refused(server: Served, first: str, shared: Session) -> None:
    url = f"{server.url.replace('http:', 'ws:')}/v1/sessions/shared/ssh"
    with connect(url, additional_headers=server.headers, proxy=None) as socket_:
        socket_.send(first)
        assert json.loads(socket_.recv(PATIENCE))["error"]["code"] == "invalid_argument"
