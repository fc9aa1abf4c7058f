"""Warm starts: the kernel is ready, from a template that the first start of its kind makes."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.integration.conftest import Cli

from holdfast.errors import InvalidArgument
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast

_DRAW = "import random, os; print(random.random(), os.urandom(4).hex())"


def _labels(hf: Holdfast) -> list[str]:
    return [str(each.label) for each in hf.snapshots()]


def test_a_warm_session_is_like_a_fresh_one_with_its_kernel_ready(hf: Holdfast, cli: Cli) -> None:
    """The first start makes the template, others use it; each has an identity, limits, random numbers."""
    done = cli("new", "one", "--warm", "--json")
    assert done.code == 0, done.err
    assert "template for warm starts" in done.err
    (label,) = _labels(hf)
    assert label.startswith("warm-")
    done = cli("new", "two", "--warm", "--memory", "1g", "--network", "none", "--policy", "every=20")
    assert (done.code, done.out, done.err) == (0, "two\n", "")
    fresh = hf.new("cold")

    assert [each.name for each in hf.sessions()] == ["one", "two", "cold"]
    one, two = hf.session("one"), hf.session("two")
    for each in (one, two):
        named = next(process for process in each.pulse().processes if "ipykernel" in process.command)
        assert named.pid
        assert each.cell("1 + 1").execution_count == 1
        assert each.exec("pwd; echo $HOLDFAST_SESSION_NAME").text == fresh.exec("pwd; echo").text
    assert two.row.options["memory"] == 1 << 30
    assert (two.row.options["network"], two.policy().every) == ("none", 20)
    assert one.cell(_DRAW).stdout != two.cell(_DRAW).stdout
    hosts = {each.exec("hostname").text for each in (one, two, fresh)}
    assert len(hosts) == 3


@pytest.mark.thorough
def test_other_options_have_a_template_of_their_own(hf: Holdfast) -> None:
    one = hf.new("one", warm=True, env=["LEVEL=1"], workdir="/srv")
    two = hf.new("two", warm=True, env=["LEVEL=2"], workdir="/srv")

    assert one.exec("echo $LEVEL $PWD").text == "1 /srv\n"
    assert two.cell("import os; os.environ['LEVEL']").text == "'2'"
    assert len(_labels(hf)) == 2


@pytest.mark.thorough
def test_the_template_is_made_again_when_the_image_has_changed(hf: Holdfast) -> None:
    """The one of the image before it is removed; sessions that were started from it keep running."""
    for number in (1, 2):
        base = f"FROM {build.reference('session')}\nRUN echo {number} > /etc/version-of-mine\n"
        subprocess.run(
            ["docker", "build", "-q", "-t", "holdfast-test/warm", "-"], input=base.encode(), check=True
        )
        made = hf.new(f"s{number}", image="holdfast-test/warm", warm=True)
        assert made.exec("cat /etc/version-of-mine").text == f"{number}\n"
        assert len(_labels(hf)) == 1
    assert hf.session("s1").exec("cat /etc/version-of-mine").text == "1\n"
    for each in hf.sessions():
        each.remove()
    subprocess.run(["docker", "rmi", "-f", "holdfast-test/warm"], check=True, capture_output=True)


@pytest.mark.thorough
def test_two_first_starts_at_once_make_one_template(hf: Holdfast, cli: Cli) -> None:
    starts = [
        subprocess.Popen(cli.command("new", name, "--warm"), env=cli.environment, stderr=subprocess.PIPE)
        for name in ("one", "two")
    ]
    said = [start.communicate(timeout=120)[1].decode() for start in starts]

    assert [start.returncode for start in starts] == [0, 0], said
    assert len(_labels(hf)) == 1
    assert sorted(each.name for each in hf.sessions()) == ["one", "two"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"network": "domains", "domains": ["example.com"]}, "cannot start warm with secrets or domains"),
        ({"template": "x"}, "cannot start warm from a template"),
        ({"memory": "lots"}, "memory"),
        ({"color": "red"}, "unknown option 'color'"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_a_refused_warm_start_leaves_nothing(hf: Holdfast, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        hf.new("work", warm=True, **options)
    assert (hf.sessions(), hf.snapshots()) == ([], [])


@pytest.mark.thorough
def test_a_name_that_is_taken_is_refused_in_one_line(hf: Holdfast, cli: Cli) -> None:
    hf.new("work", warm=True)
    done = cli("new", "work", "--warm", "--json")
    assert done.code == 1
    assert "the name is taken" in json.loads(done.err.splitlines()[-1])["error"]["message"]
    assert [each.name for each in hf.sessions()] == ["work"]
