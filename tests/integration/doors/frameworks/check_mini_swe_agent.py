"""Operations of mini-swe-agent on an environment."""

from __future__ import annotations

import pytest
from minisweagent.environments import get_environment
from minisweagent.exceptions import Submitted

from holdfast import Holdfast
from holdfast.errors import SessionNotFound
from holdfast.runtime.adapters.mini_swe_environment import HoldfastEnvironment

CLASS = "holdfast.runtime.adapters.mini_swe_environment.HoldfastEnvironment"


@pytest.fixture
def environment(url: str, name: str) -> HoldfastEnvironment:
    made = get_environment({"environment_class": CLASS, "url": url, "session": name, "env": {"MODE": "test"}})
    assert isinstance(made, HoldfastEnvironment)
    return made


def test_actions_are_shells_of_their_own(environment: HoldfastEnvironment) -> None:
    told = environment.execute({"command": "cd /tmp; echo out $MODE; echo err >&2; exit 3"})
    assert (told["output"], told["returncode"], told["exception_info"]) == ("out test\nerr\n", 3, "")
    assert environment.execute({"command": "pwd"}, cwd="/usr")["output"] == "/usr\n"


def test_an_action_whose_time_is_over_is_ended(environment: HoldfastEnvironment) -> None:
    told = environment.execute({"command": "echo begun; sleep 60"}, timeout=1)
    assert (told["output"], told["returncode"]) == ("begun\n", -1)
    assert "took more than 1 s" in told["exception_info"]
    assert told["extra"]["exception_type"] == "TimeoutError"


def test_a_failure_to_run_is_reported(environment: HoldfastEnvironment) -> None:
    told = environment.execute({"command": "true"}, cwd="/nowhere")
    assert told["returncode"] == -1
    assert "/nowhere" in told["exception_info"]


def test_an_agent_submits(environment: HoldfastEnvironment) -> None:
    with pytest.raises(Submitted) as submitted:
        environment.execute({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the patch"})
    (message,) = submitted.value.messages
    assert message["extra"]["submission"] == "the patch\n"


def test_its_own_session_is_removed_at_the_end(url: str) -> None:
    made = HoldfastEnvironment(url=url, keep=False)
    assert made.serialize()["info"]["holdfast_session"] == made.session.id
    assert made.get_template_vars(task="x")["system"] == "Linux"
    made.cleanup()
    with Holdfast(url) as controller, pytest.raises(SessionNotFound):
        controller.session(made.session.id)
