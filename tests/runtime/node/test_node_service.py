"""A node as a task of Docker Swarm: what it is given, and the containers that it makes. Pure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.machines.swarm import SHIPPED

from holdfast.errors import InvalidArgument
from holdfast.runtime.node import node_service
from holdfast.runtime.node.node_service import NodeService

GIVEN = {
    "HOLDFAST_IMAGE": "registry.test/controller:1",
    "HOLDFAST_CLUSTER": "postgresql://db/holdfast",
    "HOLDFAST_TOKEN": "t" * 32,
}
INFO = {"Name": "rack1", "Swarm": {"NodeAddr": "10.0.0.5"}, "DockerRootDir": "/var/lib/docker"}


def test_a_task_says_what_it_was_not_given(tmp_path: Path) -> None:
    """In one line, with the variable's name."""
    for missing in GIVEN:
        given = {key: value for key, value in GIVEN.items() if key != missing}
        with pytest.raises(InvalidArgument, match=f"cannot start the node: {missing} is missing"):
            NodeService.of((), given, INFO, tmp_path)


def test_a_secret_goes_before_a_variable(tmp_path: Path) -> None:
    """A secret's last line break is not part of it."""
    (tmp_path / "holdfast_token").write_text("of the swarm\n")
    found = NodeService.of((), GIVEN, INFO, tmp_path)
    assert (found.token, found.cluster) == ("of the swarm", GIVEN["HOLDFAST_CLUSTER"])


def test_a_node_listens_where_the_swarm_reaches_its_machine(tmp_path: Path) -> None:
    """Unless a variable says otherwise; its name is the machine's."""
    found = NodeService.of(("--durable", "60s"), {**GIVEN, "HOLDFAST_OPTIONS": "--rate 5"}, INFO, tmp_path)
    reached = ["--listen", "10.0.0.5:8420", "--anywhere", "--serve-address", "http://10.0.0.5:8420"]
    assert found.command() == [
        *("holdfast", "node", "--name", "rack1", *reached),
        *("--durable", "60s", "--rate", "5"),
    ]
    named = {**GIVEN, "HOLDFAST_ADDRESS": "192.0.2.7", "HOLDFAST_PORT": "9000", "HOLDFAST_NODE": "other"}
    found = NodeService.of((), named, INFO, tmp_path)
    assert (found.name, found.address) == ("other", "192.0.2.7:9000")


def test_the_keeper_gets_no_secrets_and_outlasts_the_node(tmp_path: Path) -> None:
    """It is started again by the engine, the node by the task."""
    service = NodeService.of((), GIVEN, INFO, tmp_path)
    node, keeper = (service.options(INFO, keeper=each) for each in (False, True))
    assert "HOLDFAST_TOKEN" in node["environment"]
    assert not {"HOLDFAST_TOKEN", "HOLDFAST_CLUSTER"} & keeper["environment"].keys()
    assert keeper["command"] == ["holdfast", "node", "--keeper"]
    assert (node["restart_policy"], keeper["restart_policy"]) == (
        {"Name": "no"},
        {"Name": "unless-stopped"},
    )
    for made in (node, keeper):
        assert (made["pid_mode"], made["cgroupns"], made["network_mode"]) == ("host", "host", "host")


def test_a_container_is_replaced_when_something_of_it_changes(tmp_path: Path) -> None:
    """And found again when nothing does."""

    def made(**changes: str) -> object:
        service = NodeService.of((), {**GIVEN, **changes}, INFO, tmp_path)
        return service.options(INFO, keeper=False)["labels"]

    assert made() == made()
    for changes in (
        {"HOLDFAST_IMAGE": "x:2"},
        {"HOLDFAST_TOKEN": "u" * 32},
        {"HOLDFAST_OPTIONS": "--rate 1"},
    ):
        assert made() != made(**changes)


def test_the_shipped_file_waits_longer_than_its_tasks() -> None:
    """And gives each variable that a task reads; Swarm replaces one node after the other."""
    text = SHIPPED.read_text()
    minutes = re.search(r"stop_grace_period: (\d+)m\n", text)
    assert minutes
    assert int(minutes[1]) * 60 > node_service.DRAIN_SECONDS + node_service.STOP_SECONDS
    given = set(re.findall(r"^      (HOLDFAST_\w+):", text, re.MULTILINE))
    assert given == {
        *("HOLDFAST_IMAGE", "HOLDFAST_HOME", "HOLDFAST_NODE", "HOLDFAST_PORT"),
        *("HOLDFAST_DRAIN_SECONDS", "HOLDFAST_OPTIONS"),
    }
    assert "parallelism: 1" in text
    assert "mode: global" in text
    assert node_service.__name__ in text
