"""Sessions on the engine of another machine, which shares no file with this one: over SSH, and with TLS."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import pexpect
import pytest
from tests.machines import login
from tests.machines.certificates import Authority
from tests.machines.relay import Relay
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.images import build

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

HOME = "/mnt/holdfast"
PORT = 2376
Command = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, dict[str, str]]]:
    """A machine whose engine listens with TLS, and the settings that reach it."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    server, client = authority.issue("127.0.0.1"), authority.issue_name("client")
    (folder / "ca.pem").write_bytes(authority.certificate.read_bytes())
    (folder / "cert.pem").write_bytes(Path(client["certificate"]).read_bytes())
    (folder / "key.pem").write_bytes(Path(client["key"]).read_bytes())
    tls = ("--tlsverify", f"--tlscacert={authority.certificate}", f"--tlscert={server['certificate']}")
    listen = ("--host", f"tcp://127.0.0.1:{PORT}", *tls, f"--tlskey={server['key']}")
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in (*build.ALWAYS, "controller")]
        root = Path(tmp_path_factory.mktemp("m3"))
        with Machine(root, images, of=engine, options=listen) as machine:
            # As systemd has it; and a place for the home that this machine does not see.
            made = machine.run("sh", "-ec", "mount --make-rshared /; mount -t tmpfs home /mnt")
            assert made.returncode == 0, made.stderr
            machine.run("ln", "-s", str(machine.daemon.socket), "/var/run/docker.sock")
            with Relay(PORT, into=machine.daemon.pid) as relay:
                yield (
                    machine,
                    {
                        "DOCKER_HOST": f"tcp://{relay.address}",
                        "DOCKER_TLS_VERIFY": "1",
                        "DOCKER_CERT_PATH": str(folder),
                        "HOLDFAST_REMOTE": "yes",  # its address is this machine's
                        # A company's authorities are not the engine's.
                        "REQUESTS_CA_BUNDLE": certifi.where(),
                    },
                )
    finally:
        engine.close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DOCKER_", "HOLDFAST_"))}
    unused = tmp_path_factory.mktemp("here") / "unused"
    return kept | {"HOLDFAST_REMOTE_HOME": HOME, "HOLDFAST_HOME": str(unused)}


@pytest.fixture(scope="module")
def over_ssh(
    there: tuple[Machine, dict[str, str]],
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    machine, _ = there
    ssh = {"HOLDFAST_SSH": shlex.join(login.by_ssh(machine, tmp_path_factory.mktemp("ssh")))}
    return environment | ssh | {"DOCKER_HOST": f"ssh://{login.HOST}{machine.daemon.socket}"}


@pytest.fixture(scope="module")
def with_tls(there: tuple[Machine, dict[str, str]], environment: dict[str, str]) -> dict[str, str]:
    return environment | there[1]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words]


def run(environment: dict[str, str], *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*words), env=environment, input=stdin, capture_output=True, timeout=240, check=False
    )


def says(environment: dict[str, str], *words: str, stdin: bytes = b"") -> str:
    """Return the output of a command, which must succeed."""
    done = run(environment, *words, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def session(with_tls: dict[str, str]) -> Iterator[str]:
    """One for all tests that leave it as it was."""
    says(with_tls, "new", "work")
    yield "work"
    says(with_tls, "rm", "work")


def test_a_session_lives_there_over_ssh(over_ssh: dict[str, str]) -> None:
    """Shell, kernel, snapshots, restores, forks, suspend, rewind, bundles; nothing of it is here."""
    assert says(over_ssh, "new", "work") == "work"
    says(over_ssh, "exec", "work", "cd /srv; export COLOR=green; sleep 1000 & echo kept >file")
    says(over_ssh, "cell", "work", "x = object(); here = id(x)")
    snapshot = says(over_ssh, "snapshot", "work")
    says(over_ssh, "exec", "work", "export COLOR=red; rm file")
    assert says(over_ssh, "restore", snapshot, "--name", "again") == "again"
    assert says(over_ssh, "exec", "again", "echo $COLOR $PWD $(cat file); jobs -r | wc -l").split() == [
        *("green", "/srv", "kept", "1")
    ]
    assert says(over_ssh, "cell", "again", "id(x) == here") == "True"
    assert len(says(over_ssh, "fork", "again", "--count", "2").split()) == 2
    says(over_ssh, "suspend", "again")
    says(over_ssh, "resume", "again")
    says(over_ssh, "rewind", "work", snapshot)
    assert says(over_ssh, "exec", "work", "echo $COLOR") == "green"
    bundle = run(over_ssh, "export", snapshot, "-")
    assert bundle.returncode == 0, bundle.stderr.decode()
    assert len(bundle.stdout) > 1 << 20
    for each in json.loads(says(over_ssh, "ls", "--json")):
        says(over_ssh, "rm", each["name"])
    for each in reversed(json.loads(says(over_ssh, "snapshots", "--json"))):
        says(over_ssh, "rmi", each["id"])
    imported = says(over_ssh, "import", "-", stdin=bundle.stdout)
    assert says(over_ssh, "restore", imported, "--name", "back") == "back"
    assert says(over_ssh, "exec", "back", "echo $COLOR") == "green"
    says(over_ssh, "rm", "back")
    says(over_ssh, "rmi", imported)
    assert not Path(HOME).exists()
    assert not Path(over_ssh["HOLDFAST_HOME"]).exists()


def test_the_shared_folder_has_its_limit_there(session: str, with_tls: dict[str, str]) -> None:
    """The controller next to it sees mounts that the checkpointer makes for the engine."""
    assert "at most 32 MiB" in run(with_tls, "doctor").stdout.decode()


def test_a_person_attaches_with_a_terminal_of_any_size(session: str, with_tls: dict[str, str]) -> None:
    child = pexpect.spawn(
        sys.executable,
        command("attach", "--no-status", session)[1:],
        env=with_tls,
        dimensions=(33, 91),
        timeout=60,
        encoding="utf-8",
    )
    child.expect("C-] leaves")
    child.sendline("stty size; echo mar''ked")
    child.expect("33 91")
    child.expect("marked")
    child.setwinsize(40, 120)
    child.sendline("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo gro''wn")
    child.expect("grown")
    child.sendline("echo on''going; sleep 500")
    child.expect("ongoing")
    child.sendcontrol("c")
    child.sendline("echo sto''pped")
    child.expect("stopped")
    child.sendcontrol("]")
    child.expect("detached")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert says(with_tls, "exec", session, "echo still here") == "still here"


def test_a_sessions_output_is_harmless_for_the_callers_terminal(
    session: str, with_tls: dict[str, str]
) -> None:
    """Root there can print anything, but not reach the clipboard of this terminal."""
    attack = command("exec", session, r"printf '\033]52;c;ZXZpbA==\007sa''fe\n'")
    for redirected in ("", " </dev/null"):
        child = pexpect.spawn(
            "sh", ["-c", shlex.join(attack) + redirected], env=with_tls, timeout=60, encoding="utf-8"
        )
        child.expect(pexpect.EOF)
        child.close()
        printed = str(child.before)
        assert "safe" in printed
        assert "]52" not in printed


def test_codes_streams_and_input_are_the_commands_own(session: str, with_tls: dict[str, str]) -> None:
    done = run(
        with_tls,
        "run",
        "-i",
        session,
        "--",
        "sh",
        "-c",
        "cat; echo wrong >&2; exit 7",
        stdin=b"a\0b\n" * 9999,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"a\0b\n" * 9999, b"wrong\n")
    assert run(with_tls, "exec", session, "(exit 3)").returncode == 3


def test_files_go_through_pipes(session: str, with_tls: dict[str, str], tmp_path: Path) -> None:
    data = bytes(range(256)) * 12000
    (tmp_path / "data").write_bytes(data)
    packed = subprocess.run(["tar", "c", "-C", str(tmp_path), "data"], capture_output=True, check=True).stdout
    says(with_tls, "cp", "-", f"{session}:/srv", stdin=packed)
    digest = hashlib.sha256(data).hexdigest()
    assert says(with_tls, "exec", session, "sha256sum /srv/data").split()[0] == digest
    back = run(with_tls, "cp", f"{session}:/srv/data", "-").stdout
    subprocess.run(["tar", "x", "-C", str(tmp_path)], input=back, check=True)
    assert (tmp_path / "data").read_bytes() == data
    refused = run(with_tls, "cp", str(tmp_path / "data"), f"{session}:/srv")
    assert refused.returncode == 1
    assert b"pipe it" in refused.stderr


def test_a_loop_that_reads_a_list_keeps_its_lines(session: str, with_tls: dict[str, str]) -> None:
    script = f'while read line; do {shlex.join(command("exec", session))} "echo $line"; done'
    done = subprocess.run(
        ["sh", "-c", script], env=with_tls, input=b"one\ntwo\n", capture_output=True, check=False, timeout=120
    )
    assert done.stdout.split() == [b"one", b"two"]


def test_ctrl_c_interrupts_the_command_there(session: str, with_tls: dict[str, str]) -> None:
    process = subprocess.Popen(command("exec", session, "sleep 500"), env=with_tls, stderr=subprocess.PIPE)
    while says(with_tls, "pulse", session, "--json").count("sleep 500") == 0:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in said
    assert says(with_tls, "exec", session, "echo free", "--busy-wait", "20") == "free"


def test_a_lost_connection_is_one_line_and_harms_no_session(session: str, over_ssh: dict[str, str]) -> None:
    process = subprocess.Popen(command("exec", session, "sleep 500"), env=over_ssh, stderr=subprocess.PIPE)
    while says(over_ssh, "pulse", session, "--json").count("sleep 500") == 0:
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.startswith(b"holdfast: cannot follow the command on the engine's machine: ")
    says(over_ssh, "kernel", "interrupt", session)
    assert "running" in says(over_ssh, "ls")


def test_a_context_names_the_engine(session: str, over_ssh: dict[str, str], tmp_path: Path) -> None:
    key = hashlib.sha256(b"office").hexdigest()
    folder = tmp_path / "docker" / "contexts" / "meta" / key
    folder.mkdir(parents=True)
    meta = {"Name": "office", "Endpoints": {"docker": {"Host": over_ssh["DOCKER_HOST"]}}}
    (folder / "meta.json").write_text(json.dumps(meta))
    (tmp_path / "docker" / "config.json").write_text('{"currentContext": "office"}')
    by_context = {key: value for key, value in over_ssh.items() if key != "DOCKER_HOST"}
    listed = json.loads(says(by_context | {"DOCKER_CONFIG": str(tmp_path / "docker")}, "ls", "--json"))
    assert [each["name"] for each in listed] == [session]


def test_an_engine_of_another_authority_is_not_trusted(with_tls: dict[str, str], tmp_path: Path) -> None:
    Authority(tmp_path, "another")
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((Path(with_tls["DOCKER_CERT_PATH"]) / name).read_bytes())
    (tmp_path / "authority.pem").rename(tmp_path / "ca.pem")
    done = run(with_tls | {"DOCKER_CERT_PATH": str(tmp_path)}, "ls")
    assert done.returncode == 1
    assert done.stderr.startswith(b"holdfast: cannot reach Docker: TLS with it failed: ")
    assert b"DOCKER_CERT_PATH" in done.stderr


def test_an_engine_that_cannot_be_reached(environment: dict[str, str], tmp_path: Path) -> None:
    for variables, why in (
        ({"DOCKER_HOST": "ssh://there.invalid"}, b"over SSH"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1", "HOLDFAST_REMOTE": "yes"}, b"cannot reach Docker"),
    ):
        done = run(environment | variables, "ls")
        assert done.returncode == 1
        assert done.stderr.startswith(b"holdfast: cannot reach Docker")
        assert why in done.stderr
        assert b"hint: " in done.stderr
        as_json = run(environment | variables, "ls", "--json")
        assert json.loads(as_json.stderr)["error"]["code"] == "engine_unavailable"
