"""From where images come: built of a folder by either builder, loaded from files, pulled or not."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.any_image import image
from tests.integration.conftest import Cli

from holdfast.base.home import Home
from holdfast.engine import buildkit_command
from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.sessions import init_program

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(600)  # the portable guest may have to be built first

DOCKERFILE = """
FROM {base} AS first
ARG WHO=nobody
COPY . /app/
RUN echo "$WHO" >/app/who
WORKDIR /app
ENTRYPOINT ["cat", "who"]
CMD ["main.py", "it's none"]
FROM first
RUN echo bad news && exit 3
"""
WITHOUT_BUILDKIT = {"DOCKER_BUILDKIT": "0"}


def _with_buildkit() -> str | None:
    """Return a PATH with a command that has BuildKit: the engine's own package can come later."""
    paths = (os.environ["PATH"], f"/usr/bin:{os.environ['PATH']}")
    return next((path for path in paths if buildkit_command.find({**os.environ, "PATH": path})), None)


@pytest.fixture
def folder(hf: Holdfast, tmp_path: Path) -> Path:
    made = tmp_path / "My App"
    made.mkdir()
    (made / "Dockerfile").write_text(DOCKERFILE.format(base=build.obtain_base(hf.engine.images, print)))
    (made / "main.py").write_text("print('hello')\n")
    (made / "secret").write_text("hidden\n")
    (made / ".dockerignore").write_text("secret\n")
    return made


def test_a_folder_is_built(
    hf: Holdfast, cli: Cli, folder: Path, image: object, provided: Callable[[str], str]
) -> None:
    """With what its .dockerignore leaves, step by step; a failure is one line with the end of the output."""
    words = ("--build", str(folder), "--build-arg", "WHO=ada")
    failed = cli("new", "never", *words, **WITHOUT_BUILDKIT)
    assert (failed.code, failed.out) == (1, "")
    refused = [line for line in failed.err.splitlines() if "cannot" in line]
    assert len(refused) == 1
    assert refused[0].startswith(f"holdfast: cannot build {folder}: ")
    assert failed.err.endswith("hint: bad news\n")
    assert hf.sessions() == []
    done = cli("new", "app", *words, "--target", "first", "--entrypoint", **WITHOUT_BUILDKIT)
    assert (done.code, done.out) == (0, "app\n"), done.err
    session = hf.session("app")
    assert provided(session.image).startswith("holdfast/provided:my-app-")
    assert session.exec("pwd; ls; cat who").text.split() == ["/app", "Dockerfile", "main.py", "who", "ada"]
    assert "RUN echo" in done.err
    job = session.job("entrypoint")
    assert job.wait().exit_code == 1
    assert job.output().splitlines()[:2] == [b"ada", b"print('hello')"]
    none = cli("new", "ours", "--entrypoint")
    assert (none.code, "cannot run the entrypoint of" in none.err) == (1, True)
    assert [each.name for each in hf.sessions()] == ["app"]


def test_buildkit_is_used_where_it_is_there(
    hf: Holdfast, folder: Path, monkeypatch: pytest.MonkeyPatch, provided: Callable[[str], str]
) -> None:
    """It has mounts for one step, which the classic builder lacks; but no rules for the network of steps."""
    found = _with_buildkit()
    if found is None:
        pytest.skip("no command of Docker here has BuildKit")
    monkeypatch.setenv("PATH", found)
    text = (folder / "Dockerfile").read_text().replace("RUN echo", "RUN --mount=type=tmpfs,target=/mnt echo")
    other = folder.with_name("Other")
    other.write_text(text)
    with pytest.raises(ImageError, match=f"^cannot build {folder}: .*exit code: 3$") as failed:
        hf.images.build(folder, file=other, network="none")
    assert failed.value.hint == "bad news"
    words: dict[str, Any] = {"file": other, "arguments": {"WHO": "ada"}, "target": "first"}
    name = provided(hf.images.build(folder, network="none", **words))
    config = hf.engine.images.config(name)
    assert config
    assert config["WorkingDir"] == "/app"
    with pytest.raises(ImageError, match="requires BuildKit") as ruled:
        hf.images.build(folder, file=other)
    assert "--build-network none" in ruled.value.hint
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    with pytest.raises(ImageError, match="requires BuildKit") as refused:
        hf.images.build(folder, file=other, network="none")
    assert "buildx" in refused.value.hint


@pytest.mark.thorough
def test_an_image_from_files(
    hf: Holdfast, cli: Cli, tmp_path: Path, image: Callable[..., str], provided: Callable[[str], str]
) -> None:
    """A file that `docker save` wrote, and the same as an OCI layout: one image, under a name of ours."""
    name = image("saved", files={"readme": b"kept\n"})
    path, layout = tmp_path / "app.tar", tmp_path / "app"
    with path.open("wb") as file:
        file.writelines(hf.engine.images.save(name, 1 << 20))
    _as_layout(path, layout)
    loaded = provided(hf.images.load(layout))
    assert loaded == hf.images.load(path)
    hf.engine.images.remove(loaded)
    done = cli("new", "it", "--image", str(path))
    assert done.code == 0, done.err
    session = hf.session("it")
    assert session.image == loaded
    assert session.exec("read -r line </readme; echo $line").text == "kept\n"
    assert hf.engine.images.exists(name)  # as it was: what the file calls itself does not matter


def _as_layout(saved: Path, layout: Path) -> None:
    """Write an OCI layout with compressed layers of the engine's saved image."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    with tarfile.open(saved) as archive:

        def member(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file
            return file.read()

        (about,) = json.loads(member("manifest.json"))
        layers = [blob(gzip.compress(member(each))) for each in about["Layers"]]
        manifest = {"config": blob(member(about["Config"])), "layers": layers}
    index = {"manifests": [blob(json.dumps(manifest).encode())]}
    (layout / "index.json").write_text(json.dumps(index))


def test_pulling_is_a_matter_of_choice(hf: Holdfast, cli: Cli, image: Callable[..., str]) -> None:
    """A registry that does not answer is asked only if the image is missing, or if it must be."""
    name = image("there", files={"a": b"1"})
    assert hf.images.pull(name, "never") == hf.images.pull(name) == name
    gone = "127.0.0.1:1/none/such:1"
    hf.engine.images.tag(name, gone)
    try:
        refused = cli("new", "never", "--image", gone, "--pull", "always")
        assert refused.code == 1
        assert f"cannot pull image {gone} again (" in refused.err
    finally:
        hf.engine.images.untag(gone)
    refused = cli("new", "never", "--image", gone, "--pull", "never")
    assert (refused.code, refused.err.splitlines()[0]) == (
        1,
        f"holdfast: cannot use image {gone}: the engine does not have it, and must not pull it",
    )
    assert hf.sessions() == []


@pytest.mark.thorough
def test_an_image_that_is_removed_meanwhile(
    hf: Holdfast,
    image: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    remains: Callable[[Home], list[str]],
    clear: Callable[[Holdfast], None],
) -> None:
    """Between fitting and start: one line, and nothing is left; the next attempt fits it again."""
    name = image("going", files={"a": b"1"})
    obtain = init_program.obtain

    def late(*arguments: object) -> object:
        row = hf.store.sessions()[-1]
        hf.engine.images.remove(row.image)
        return obtain(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(init_program, "obtain", late)
        with pytest.raises(ImageError, match=r"^cannot .*[Nn]o such image"):
            hf.new("gone", image=name)
    assert hf.sessions() == []
    clear(hf)
    assert remains(hf.home) == []
    assert hf.new("again", image=name).exec("echo yes").text == "yes\n"


def test_a_project_with_a_devcontainer(hf: Holdfast, cli: Cli, tmp_path: Path) -> None:
    """Its folder, user and variables are there, its commands ran; one that fails leaves nothing.

    The container is an ordinary session's, whatever the project asks for.
    """
    project, witness = tmp_path / "project", tmp_path / "witness"
    project.mkdir()
    (project / "main.py").write_text("print('hello')\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text(
        '[http "https://host/"]\n\textraheader = AUTHORIZATION: basic c2VjcmV0\n'
        '[remote "origin"]\n\turl = https://x:t0ken@host/a.git\n'
    )
    asked = {
        "image": build.ensure(hf.engine.images, "session"),
        "remoteUser": "1000",
        "containerEnv": {"A": "theirs", "B": "theirs"},
        "postCreateCommand": {"one": "echo $A $B >made", "two": ["touch", "two words"]},
        "forwardPorts": [80],
        "initializeCommand": f"touch {witness}",
        "privileged": True,
        "capAdd": ["SYS_ADMIN"],
        "securityOpt": ["seccomp=unconfined"],
        "mounts": ["source=/,target=/host,type=bind"],
        "workspaceMount": "source=/,target=/host,type=bind",
        "runArgs": ["--privileged", "--network=host", "--volume=/:/host", "--pid=host"],
    }
    description = project / ".devcontainer.json"
    description.write_text(json.dumps(asked))
    done = cli("new", "it", "--devcontainer", str(project), "--env", "B=mine")
    assert (done.code, done.out) == (0, "it\n"), done.err
    for each in ("forwardPorts", "initializeCommand", "privileged", "capAdd", "mounts", "runArgs"):
        assert f"devcontainer.json: {each} is ignored" in done.err
    assert not witness.exists()
    assert _rights(hf, "it") == _rights(hf, hf.new("any").name)
    hf.session("any").remove()
    shown = hf.session("it").exec("pwd; id -u; echo *; cat made; touch more && python3 main.py")
    assert shown.text.splitlines() == [
        *("/workspaces/project", "1000", "made main.py two words", "theirs mine", "hello"),
    ]
    kept = hf.session("it").files.read("/workspaces/project/.git/config").decode()
    assert kept == '[http "https://host/"]\n[remote "origin"]\n\turl = https://x@host/a.git\n'
    description.write_text(json.dumps(asked | {"postCreateCommand": "echo oops; exit 4"}))
    failed = cli("new", "never", "--devcontainer", str(project))
    assert (failed.code, failed.err.splitlines()[-2:]) == (
        1,
        [
            "holdfast: cannot prepare the session: postCreateCommand of devcontainer.json exited with 4",
            "  hint: oops",
        ],
    )
    assert [each.name for each in hf.sessions()] == ["it"]


def _rights(hf: Holdfast, name: str) -> dict[str, Any]:
    """Return the rights of a session's container, except for its own places on the host."""
    found = hf.engine.client.api.inspect_container(str(hf.session(name).row.container_id))["HostConfig"]
    places = sorted(one["Target"].partition("/.holdfast")[0] for one in found["Mounts"])
    return {**found, "Mounts": places}
