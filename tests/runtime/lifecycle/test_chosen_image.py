"""The image of a new session: the ones used as they are, and errors of others about a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.orchestration import context_of

from holdfast.base.home import Home
from holdfast.errors import EngineError, ImageError
from holdfast.images import build
from holdfast.runtime.lifecycle import chosen_image, fitting
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions.session_options import SessionOptions

FOREIGN = "sha256:foreign"


@pytest.fixture
def engine() -> FakeEngine:
    made = FakeEngine()
    made.images.add(FOREIGN, "foreign:1")
    made.images.add("sha256:ours", "ours:1", holdfast_guest="own")
    return made


@pytest.fixture
def context(home: Home, engine: FakeEngine) -> Context:
    return context_of(home, engine)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The image that was to be fitted; it is left alone."""
    asked: list[str] = []

    def fit(_context: Context, name: str, found: dict[str, Any]) -> str:
        asked.append(f"{name} {found['Id']}")
        return "holdfast/fitted:1"

    monkeypatch.setattr(fitting, "fit", fit)
    return asked


def choose(context: Context, **options: Any) -> chosen_image.ChosenImage:
    return chosen_image.choose(context, SessionOptions.parse(**options))


def test_an_image_with_a_guest_is_used_as_it_is(
    context: Context, engine: FakeEngine, fitted: list[str]
) -> None:
    """Its user and its folder are ignored, as ever; volumes would be in no snapshot."""
    engine.images.configs["sha256:ours"] = {"User": "nobody", "WorkingDir": "/proc"}
    found = choose(context, image="ours:1")
    assert (found.name, found.options.user, found.options.workdir) == ("ours:1", None, None)
    engine.images.configs["sha256:ours"] = {"Volumes": {"/data": {}}}
    with pytest.raises(ImageError, match="volume at /data"):
        choose(context, image="ours:1")
    assert fitted == []


@pytest.mark.parametrize(
    ("config", "user", "workdir"),
    [
        ({}, None, None),
        ({"User": "", "WorkingDir": ""}, None, None),
        ({"User": "root:root", "WorkingDir": "/"}, None, "/"),
        ({"User": "0", "WorkingDir": "/app"}, None, "/app"),
        ({"User": "node:node"}, "node", None),
        ({"User": "1000"}, "1000", None),
        ({"User": "1000:50"}, "1000:50", None),
        ({"User": "1000:staff"}, "1000", None),
    ],
)
def test_user_and_folder_come_from_the_image(
    context: Context,
    engine: FakeEngine,
    fitted: list[str],
    config: dict[str, Any],
    user: str | None,
    workdir: str | None,
) -> None:
    """Unless the caller chose others."""
    engine.images.configs[FOREIGN] = {**config, "Volumes": {"/b": {}, "/a": {}}}
    found = choose(context, image="foreign:1")
    assert (found.name, found.options.user, found.options.workdir) == ("holdfast/fitted:1", user, workdir)
    assert found.folders == ("/a", "/b")
    chosen = choose(context, image="foreign:1", user="7", workdir="/srv").options
    assert (chosen.user, chosen.workdir) == ("7", "/srv")
    assert fitted == [f"foreign:1 {FOREIGN}"] * 2


def test_a_user_that_cannot_be_one_is_named(context: Context, engine: FakeEngine, fitted: list[str]) -> None:
    engine.images.configs[FOREIGN] = {"User": "no one at all"}
    with pytest.raises(ImageError, match=r"image foreign:1: .*user must be a user name") as refused:
        choose(context, image="foreign:1")
    assert "--user" in refused.value.hint
    assert fitted == []


def test_a_missing_image_is_fetched(
    context: Context, engine: FakeEngine, fitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the tag that `docker pull` would take."""
    asked = []

    def pull(repository: str, tag: str) -> Iterator[dict[str, Any]]:
        asked.append((repository, tag))
        engine.images.add("sha256:new", "new:latest", "new")
        yield {"status": "Pulling"}

    monkeypatch.setattr(engine.images, "pull", pull, raising=False)
    assert choose(context, image="new").name == "holdfast/fitted:1"
    assert asked == [("new", "latest")]


@pytest.mark.parametrize("how", ["event", "error", "nothing"])
def test_an_image_that_cannot_be_fetched_is_named_with_the_cause(
    context: Context, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def pull(_repository: str, _tag: str) -> Iterator[dict[str, Any]]:
        if how == "error":
            raise EngineError("cannot pull image: Get https://x/v2/: no such host")
        if how == "event":
            yield {"error": "manifest unknown: no such host"}

    monkeypatch.setattr(engine.images, "pull", pull, raising=False)
    cause = "its registry did not return one" if how == "nothing" else "no such host"
    with pytest.raises(ImageError) as refused:
        choose(context, image="gone:2")
    assert str(refused.value) == (
        f"cannot use image gone:2: the engine does not have it, and cannot pull it ({cause})"
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("debian", ("debian", "latest")),
        ("debian:12", ("debian", "12")),
        ("localhost:5000/a/b", ("localhost:5000/a/b", "latest")),
        ("localhost:5000/a/b:c", ("localhost:5000/a/b", "c")),
        ("a@sha256:12", ("a", "sha256:12")),
    ],
)
def test_names_have_parts(name: str, parts: tuple[str, str]) -> None:
    assert chosen_image._parts(name) == parts


@pytest.mark.parametrize(
    ("about", "why"),
    [
        (
            {"Architecture": "s390x", "Os": "linux"},
            r"it is for linux/s390x, and this engine's machine is linux",
        ),
        ({"Architecture": "amd64", "Os": "windows"}, r"it is for windows/amd64"),
        ({"RootFS": {"Layers": []}}, "it does not contain files"),
        ({"RootFS": {}}, "it does not contain files"),
    ],
)
def test_images_that_cannot_have_a_guest_are_named(
    context: Context, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, about: dict[str, Any], why: str
) -> None:
    """Before anything is built or made."""
    engine.__dict__["platform"] = "linux/amd64"
    monkeypatch.setattr(build, "ensure", None)
    found = {"Id": "x", "Os": "linux", "Architecture": "amd64", "RootFS": {"Layers": ["sha256:1"]}, **about}
    with pytest.raises(ImageError, match=f"cannot use image it:1: {why}"):
        fitting.fit(context, "it:1", found)


def test_our_image_for_data_is_built_on_request_alone(context: Context, engine: FakeEngine) -> None:
    """It is large: a session that wants it is refused where it is not built, and nothing is pulled."""
    with pytest.raises(ImageError, match="not built on this machine") as refused:
        choose(context, image="data")
    assert "`holdfast image build data`" in str(refused.value.hint)
    tag = build.reference("data")
    engine.images.add("sha256:data", tag)
    assert choose(context, image="data").name == tag
    assert tag != build.reference("session")
