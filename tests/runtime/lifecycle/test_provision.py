"""From a row to a container: the image, early refusals, and waiting for the guest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.conftest import FakeGuest
from tests.runtime.orchestration import context_of, running

from holdfast.base.home import Home
from holdfast.errors import EngineUnfit, InvalidArgument, SessionError
from holdfast.runtime.guest import layout
from holdfast.runtime.lifecycle import chosen_image, provision
from holdfast.runtime.sessions.session_options import SessionOptions


@pytest.fixture
def engine() -> FakeEngine:
    made = FakeEngine()
    made.images.add("sha256:image", "mine:1")
    return made


def test_an_unfit_engine_is_refused_before_anything_is_made(home: Home, engine: FakeEngine) -> None:
    """No image is built and no container made, by a restore neither; the hint says what to use."""
    engine.__dict__["unfit"] = "it is Podman"
    row = running(context_of(home, engine), engine, network="none")
    with pytest.raises(EngineUnfit, match="cannot run sessions on this engine: it is Podman") as refused:
        chosen_image.choose(context_of(home, engine), SessionOptions())
    assert "DOCKER_HOST" in refused.value.hint
    with pytest.raises(EngineUnfit):
        provision.create_container(engine, home, row, "op", Path("/init"))
    assert not [each for each in engine.asked if each.startswith("create")]


def test_missing_host_features_are_refused_before_a_container_is_made(home: Home, engine: FakeEngine) -> None:
    """A folder to mount that is not there; a limit of disk space without quotas."""
    context = context_of(home, engine)
    row = running(context, engine, mounts=[{"source": "/missing", "target": "/data"}])
    with pytest.raises(InvalidArgument, match="cannot mount /missing"):
        provision.create_container(engine, home, row, "op", Path("/init"))
    engine.__dict__["disk_fault"] = "its storage has no quotas"
    row = running(context, engine, "limited", disk="64m", network="none")
    with pytest.raises(InvalidArgument, match=r"cannot limit .* no quotas"):
        provision.create_container(engine, home, row, "op", Path("/init"))
    assert not [each for each in engine.asked if each.startswith("create")]


def test_a_container_is_labelled_with_its_operation_and_knows_itself(home: Home, engine: FakeEngine) -> None:
    """So that it is found if the next step fails."""
    engine.__dict__["disk_fault"] = "no quotas"
    row = replace(running(context_of(home, engine), engine, network="none"), image="sha256:image")
    made = provision.create_container(engine, home, row, "op-1", Path("/init"))
    assert list(engine.containers(holdfast_operation="op-1", holdfast_session=row.id)) == [made]
    assert made in (home.run_dir(row.id) / layout.SESSION_NAME).read_text()


@pytest.mark.parametrize(
    ("exit_code", "oom", "why"), [(3, False, r"ended \(exit code 3\)"), (137, True, "needs more memory")]
)
def test_a_container_that_ends_is_not_awaited(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int, oom: bool, why: str
) -> None:
    """Nor is one that was removed. The last line of its log is in the hint."""
    monkeypatch.setattr(provision, "ASK_SECONDS", 0.0)
    engine.container("c", running=False)
    engine.states["c"] = replace(engine.states["c"], exit_code=exit_code, oom_killed=oom)
    engine.files.contents["c", str(layout.STATE_DIR / "supervisor.log")] = b"first\nlast words\n"
    with pytest.raises(SessionError, match=why) as ended:
        provision.await_guest(engine, "c", tmp_path)
    assert "last words" in ended.value.hint
    engine.kill_remove("c")
    with pytest.raises(SessionError, match="was removed"):
        provision.await_guest(engine, "c", tmp_path)


def test_a_supervisor_that_never_answers_ends_the_wait(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "START_SECONDS", 0.0)
    engine.container("c")
    with pytest.raises(SessionError, match="its supervisor does not answer"):
        provision.await_guest(engine, "c", tmp_path)


def test_the_greeting_of_a_session_ends_the_wait(engine: FakeEngine, guest: FakeGuest) -> None:
    fake = guest(lambda peer, _frame: peer.send(event="hello", pid=7))
    assert provision.await_guest(engine, "c", fake.folder)["pid"] == 7


def test_a_caller_can_give_up_the_wait(engine: FakeEngine, tmp_path: Path) -> None:
    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provision.await_guest(engine, "c", tmp_path, give_up)
