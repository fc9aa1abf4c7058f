"""The name of a running container's host: set in its own UTS namespace, and in no other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from holdfast.snapshots.checkpointer.container import host_name
from holdfast.snapshots.checkpointer.wire import requests
from holdfast.snapshots.checkpointer.wire.requests import BadRequest, HostName

CONTAINER = "ab" * 32


@pytest.fixture
def apart() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a UTS namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root makes namespaces")
    words = ["unshare", "--uts", "sh", "-c", "echo; read line; hostname"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def in_thread(pid: int, name: str) -> list[OSError]:
    """Give a name from a thread, which does not come back; return its error."""
    failed: list[OSError] = []

    def work() -> None:
        try:
            host_name.give(pid, name)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return failed


def test_only_the_container_gets_the_name(apart: subprocess.Popen[bytes]) -> None:
    """Neither this process nor its other threads are moved or renamed."""
    before = socket.gethostname()
    assert in_thread(apart.pid, "work-1") == []
    assert socket.gethostname() == before
    out, _ = apart.communicate(b"\n")
    assert out == b"work-1\n"


def test_the_hosts_own_name_is_never_set() -> None:
    """A process that shares the namespace of this one is refused, as is one that has ended."""
    before = socket.gethostname()
    assert len(in_thread(os.getpid(), "work")) == 1
    assert len(in_thread(1 << 22, "work")) == 1
    assert socket.gethostname() == before


def parsed(**fields: object) -> object:
    asked = {"v": requests.PROTOCOL, "op": "host_name", "container": CONTAINER, "init_pid": 7, **fields}
    return requests.parse(json.dumps(asked).encode())


def test_a_request_names_a_container_and_a_host() -> None:
    assert parsed(name="try-2") == HostName(CONTAINER, 7, "try-2")


@pytest.mark.parametrize("name", [None, "", 3, "a b", "-a", "a\n", "a" * 65, "a/b", "ä"])
def test_a_name_of_an_unexpected_form_is_refused(name: object) -> None:
    """It would be what programs in the session show and connect to."""
    with pytest.raises(BadRequest, match="host name"):
        parsed(name=name)
