"""The rights of root in a session, seen from the place where the supervisor runs.

A container with the options of a real session starts its real first process; only the supervisor is
replaced, by a probe that tries things and writes down what happened.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from holdfast.base.home import Home
from holdfast.engine import networks
from holdfast.engine.engine import Engine
from holdfast.images import build, seccomp
from holdfast.runtime.egress import close_network
from holdfast.runtime.guest import layout
from holdfast.runtime.sessions import init_program
from holdfast.runtime.sessions.session_options import SessionOptions, container_options
from holdfast.snapshots import service

PROBE = Path(__file__).with_name("posture_probe.py")
RESULT = "/workspace/result.json"
# Includes the start of a container and an installation by apt.
PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    engine = Engine.connect()
    yield engine.client
    engine.close()


@pytest.fixture(scope="module")
def found(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the probe's record."""
    engine = Engine(client)
    home = Home(tmp_path_factory.mktemp("posture") / "home").create()
    options = container_options(
        SessionOptions(),
        name="holdfast-test-posture",
        hostname="posture",
        image=build.ensure(engine.images, "session"),
        command=["start"],
        labels={"holdfast.role": "test"},
        run_dir=tmp_path_factory.mktemp("run"),
        init=init_program.obtain(engine, home, print),
        first=init_program.place(),
        seccomp=seccomp.profile(),
        network=networks.ensure(Engine(client)),
        mptcp=Path("/proc/sys/net/mptcp/enabled").exists(),
        resolver=close_network.resolver_file(home),
    )
    Engine(client).kill_remove("holdfast-test-posture")
    container = client.containers.create(**options)
    try:
        container.put_archive(str(layout.GUEST_TREE), _archive("__main__.py", PROBE.read_bytes()))
        container.start()
        close_network.Closing(Engine(client), home, print).close(SessionOptions(), str(container.id))
        ended = container.wait(timeout=PATIENCE_SECONDS)
        assert ended["StatusCode"] == 0, container.logs().decode()
        stream, _ = container.get_archive(RESULT)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            member = archive.extractfile("result.json")
            assert member is not None
            yield json.load(member)
    finally:
        container.remove(force=True, v=True)
        service.stop(engine, home)


def _archive(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(name)
        # A time of its own: the image's compiled file must not be taken for this one.
        member.size, member.mtime = len(data), 1
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.thorough
def test_supervisor_has_no_terminal_and_none_of_the_engines_streams(found: dict[str, Any]) -> None:
    """It leads a session of its own, and its streams can be dumped."""
    assert found["sid"] == found["pid"]
    assert found["streams"] == ["/dev/null"] * 3


def test_low_pids_stay_free(found: dict[str, Any]) -> None:
    """The tools of a restore find PIDs that no restored process claims."""
    assert found["pid"] > 300
    assert 300 < found["ppid"] < found["pid"]  # the keeper


def test_no_signal_is_blocked_or_ignored(found: dict[str, Any]) -> None:
    """The signals PID 1 blocks for itself are not passed on; Python itself ignores PIPE and XFSZ."""
    assert found["blocked"] == 0
    assert found["ignored_before_python"] == 0


def test_capabilities_suffice_for_package_managers_and_servers(found: dict[str, Any]) -> None:
    """NET_ADMIN is in no set, not even of PID 1: a container is never given it."""
    expected = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))

    for who in ("self", "1"):
        sets = found["capabilities"][who]
        assert sets["CapPrm"] == sets["CapEff"] == sets["CapBnd"] == expected
        assert sets["CapAmb"] == 0


def test_the_metadata_address_cannot_be_reached(found: dict[str, Any]) -> None:
    """The kernel refuses it immediately, and rules, routes and addresses cannot be changed from inside."""
    assert found["metadata"] == "ECONNREFUSED"
    assert found["network_changes"] == dict.fromkeys(("route", "address", "neighbour", "rules"), "EPERM")


@pytest.mark.parametrize(
    "name",
    ["io_uring_setup", "memfd_secret", "unshare", "mount", "setns", "bpf", "keyctl", "perf_event_open"],
)
def test_refused_system_calls(found: dict[str, Any], name: str) -> None:
    """Calls outside the profile fail with EPERM."""
    assert found["calls"][name] == "EPERM"


def test_clone3_seems_absent(found: dict[str, Any]) -> None:
    """The C library falls back to clone."""
    assert found["calls"]["clone3"] == "ENOSYS"


@pytest.mark.parametrize(
    ("family", "outcome"),
    [
        ("AF_UNIX", "ok"),
        ("AF_INET", "ok"),
        ("AF_INET6", "ok"),
        ("AF_NETLINK", "ok"),
        ("AF_ALG", "EPERM"),
        ("AF_VSOCK", "EPERM"),
        ("AF_VSOCK with upper bits", "EPERM"),
        ("AF_PACKET", "EPERM"),
        ("audit", "EPROTONOSUPPORT"),
    ],
)
def test_socket_families(found: dict[str, Any], family: str, outcome: str) -> None:
    """Sockets are local or of the internet; the hypervisor and the kernel's crypto are out of reach."""
    assert found["sockets"][family] == outcome


def test_32_bit_calls_do_not_bypass_the_filter(found: dict[str, Any]) -> None:
    """socketcall, whose family no filter sees, seems absent; other 32-bit calls work."""
    if found["machine"] != "x86_64":
        pytest.skip("only x86_64 has 32-bit calls of this kind")
    assert found["i386"] in ({"getpid": "ok", "socketcall": "ENOSYS", "vsock": "EPERM"}, {"getpid": "none"})


def test_a_user_namespace_is_refused(found: dict[str, Any]) -> None:
    """`unshare -U` fails as in any container."""
    assert found["unshare_u"] != 0


def test_the_number_of_open_files_is_bounded(found: dict[str, Any]) -> None:
    """Programs that loop over all possible files end soon, and can use their whole allowance."""
    soft, hard = found["nofile"]

    assert soft == hard <= 65536


def test_threads_compilers_and_other_users_work(found: dict[str, Any]) -> None:
    """The profile does not obstruct daily work."""
    assert found["threads"] == 50
    assert found["gcc"] == [0, "42"]
    assert found["sudo"] == [0, "nobody"]


def test_pip_installs_for_the_kernel_and_not_for_the_guest(found: dict[str, Any]) -> None:
    """`python` is the user's environment, also in a login shell; the guest's interpreter stays as it is."""
    assert found["python"] == "/opt/python"
    assert found["login_python"] == "/opt/python/bin/python"
    assert found["kernel_argv"][0] == "/opt/python/bin/python"
    assert found["guest_prefix"] == "/usr"


def test_apt_installs_packages(found: dict[str, Any]) -> None:
    """The remaining capabilities are enough for apt and dpkg, and the mirror is reached."""
    assert found["apt"] == 0, found["apt_output"]
