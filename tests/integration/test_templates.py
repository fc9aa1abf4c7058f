"""Sessions that start from a template: where a prepared one was, with options of their own."""

from __future__ import annotations

import json

import pytest
from tests.integration.conftest import Cli

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.api.controller import Holdfast


def test_sessions_start_where_the_template_was(hf: Holdfast, cli: Cli) -> None:
    """Variables, running programs and the kernel; each session has its own, and limits of its own."""
    prepared = hf.new("prepared", memory="1g")
    prepared.exec("cd /srv; export READY=yes; python3 -m http.server 8000 >/dev/null 2>&1 &")
    prepared.cell("data = list(range(5))")
    made = prepared.template("web", reason="with a server")
    prepared.remove()

    done = cli("new", "one", "--template", "web", "--memory", "2g", "--policy", "every=20", "--json")
    assert done.code == 0, done.err
    one, two = hf.session("one"), hf.new("two", template="web", network="none", pids=512)

    assert made.pinned
    assert made.template
    for each in (one, two):
        assert each.exec("echo $READY $PWD; curl -s -o /dev/null -w '%{http_code}' localhost:8000").text == (
            "yes /srv\n200"
        )
        assert each.cell("sum(data)").text == "10"
    assert one.row.options["memory"] == 2 << 30
    assert one.policy().every == 20
    assert two.row.options["memory"] == 1 << 30
    assert (two.row.options["pids"], two.row.options["network"]) == (512, "none")
    assert hf.engine.client.containers.get(str(two.row.container_id)).attrs["HostConfig"]["PidsLimit"] == 512


@pytest.mark.thorough
def test_a_template_is_replaced_and_the_old_one_removed(hf: Holdfast, cli: Cli) -> None:
    session = hf.new("work")
    first = session.template("base")
    session.exec("echo new > /srv/new")

    refused = cli("template", "work", "--name", "base", "--json")
    assert refused.code == 1
    assert "--replace" in json.loads(refused.err)["error"]["hint"]
    done = cli("template", "work", "--name", "base", "--replace")

    assert (done.code, done.out) == (0, "base\n")
    assert [each.label for each in hf.snapshots()] == ["base"]
    assert hf.snapshot("base").id != first.id
    assert "template" in cli("snapshots").out
    assert hf.new("after", template="base").exec("cat /srv/new").text == "new\n"


def test_a_snapshot_is_not_replaced_by_a_template(hf: Holdfast) -> None:
    session = hf.new("work")
    taken = session.snapshot("kept")

    with pytest.raises(InvalidArgument, match="not a template has that name"):
        session.template("kept", replace=True)

    assert [each.id for each in hf.snapshots()] == [taken.id]


@pytest.mark.thorough
def test_invalid_choices_are_refused_before_anything_is_made(hf: Holdfast, cli: Cli) -> None:
    session = hf.new("work")
    session.cell("held = bytearray(b'x') * (400 << 20)")
    session.template("base")

    done = cli("new", "other", "--template", "base", "--env", "A=1")
    assert done.code == 1
    assert done.err.startswith("holdfast: cannot choose 'env' for a session from a template")
    with pytest.raises(InvalidArgument, match="its programs hold"):
        hf.new("small", template="base", memory="300m")
    with pytest.raises(SnapshotNotFound):
        hf.new("none", template="missing")
    assert [each.name for each in hf.sessions()] == ["work"]
