from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest
import requests.exceptions
import urllib3.exceptions

from holdfast.engine.engine import Engine
from holdfast.engine.engine_faults import table, translate, translated, unmounted
from holdfast.errors import EngineError, EngineUnavailable, ImageError


def test_every_error_of_the_sdk_is_in_the_table() -> None:
    """Nothing the SDK or the libraries below can raise passes the seam, except misuse."""
    known = (*(theirs for theirs, _ in table()), Warning, AssertionError, ValueError)
    for module in (docker.errors, requests.exceptions, urllib3.exceptions):
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, Exception) and kind.__module__ == module.__name__:
                assert issubclass(kind, known), name


def test_specific_errors_precede_general_ones() -> None:
    """No entry of the table hides a later one."""
    for place, (theirs, _) in enumerate(table()):
        assert not any(issubclass(later, theirs) for later, _ in table()[place + 1 :])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (docker.errors.ImageNotFound("x"), ImageError),
        (docker.errors.NotFound("x"), EngineError),
        (requests.exceptions.ConnectionError("x"), EngineUnavailable),
        (requests.exceptions.ReadTimeout("x"), EngineUnavailable),
        (docker.errors.DockerException("x"), EngineError),
    ],
)
def test_each_error_becomes_one_of_ours_in_one_line(error: Any, kind: Any) -> None:
    """The message names what could not be done."""
    ours = translate(error, "start container")

    assert type(ours) is kind
    assert str(ours).startswith("cannot start container: ")
    assert "\n" not in str(ours)


@pytest.mark.parametrize(
    "said",
    [
        "Error processing tar file(exit status 1): write /new/layer.tar: no space left on device",
        b"mkdir /var/lib/docker/overlay2/x: disk quota exceeded",
        "E: You don't have enough free space in /var/cache/apt/archives/.",
    ],
)
def test_a_full_disk_of_the_engine_is_named(said: Any) -> None:
    """Not the file that it could not write."""
    ours = translate(docker.errors.APIError("500", explanation=said), "commit container")

    assert str(ours) == "cannot commit container: the engine's disk is full"
    assert "docker system df" in ours.hint


def test_a_refused_connection_inside_an_sdk_error_means_no_engine() -> None:
    """The SDK wraps the error it met when asking for the version; the cause counts."""
    error = docker.errors.DockerException("Error while fetching server API version")
    error.__cause__ = ConnectionRefusedError()
    with pytest.raises(EngineUnavailable) as raised, translated("reach Docker"):
        raise error

    assert "DOCKER_HOST" in raised.value.hint


def test_no_engine_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DOCKER_HOST is respected, and an absent engine is reported down."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    with pytest.raises(EngineUnavailable, match="no Docker engine answers"):
        Engine.connect()


@pytest.mark.parametrize("host", ["ssh://root@far.example", "SSH://user:hunter2@far.example:2222"])
def test_an_engine_over_ssh_is_refused_by_the_api(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """The SDK advises to install a library, which would not help; a password in the address is not shown."""
    monkeypatch.setenv("DOCKER_HOST", host)

    with pytest.raises(EngineUnavailable, match="DOCKER_HOST from here: it is on another machine") as raised:
        Engine.connect()

    assert "`holdfast`" in raised.value.hint
    assert "hunter2" not in f"{raised.value} {raised.value.hint}"
    assert "paramiko" not in str(raised.value)


def test_an_answer_is_not_a_refused_connection_whatever_was_handled_before() -> None:
    """Its context can be the error of a previous connection."""
    with pytest.raises(EngineError, match="cannot start it: no capability") as raised:  # noqa: PT012, SIM117
        with translated("start it"):
            try:
                raise FileNotFoundError("another socket")
            except FileNotFoundError:
                raise docker.errors.APIError("500", explanation="no capability")  # noqa: B904
    assert not isinstance(raised.value, EngineUnavailable)


LOST = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
    'failed: unable to start container process: writing syncT "procResume": write init-p: broken pipe'
)
NO_PROGRAM = 'OCI runtime create failed: exec: "none": executable file not found in $PATH: unknown'


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([LOST, None], ""),
        ([LOST, LOST, None], "init-p: broken pipe"),
        ([NO_PROGRAM, None], "executable file not found"),
    ],
)
def test_a_start_that_the_runtime_lost_is_tried_once_more(answers: list[str | None], fault: str) -> None:
    left = list(answers)

    def start(_container: str) -> None:
        if (said := left.pop(0)) is not None:
            raise docker.errors.APIError("500 Server Error", explanation=said)

    client: Any = SimpleNamespace(api=SimpleNamespace(start=start))
    if fault:
        with pytest.raises(EngineError, match=fault):
            Engine(client).start("c")
        assert left == [None]
    else:
        Engine(client).start("c")
        assert left == []


def test_a_place_in_which_nothing_can_be_mounted_is_named() -> None:
    """As runc names it, whatever else it says; other failures have none."""
    said = (
        'OCI runtime create failed: error mounting "/home/run/x" to rootfs at "/run/holdfast": '
        "mount /home/run/x:/run/holdfast: not a directory: unknown"
    )
    assert unmounted(said) == "/run/holdfast"
    assert unmounted("OCI runtime create failed: write init-p: broken pipe") == ""
