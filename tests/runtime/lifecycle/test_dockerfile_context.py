"""A build's input is read once, from the folder alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import dockerfile_context

URL = "http://127.0.0.1:9/x"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "docker").mkdir(parents=True)
    (made / "docker" / "one").write_text("FROM a\n")
    (made / "Dockerfile").symlink_to("docker/one")
    return made


def test_the_context_that_was_read_is_built(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("# none\n  secret \n\n!x\n")
    found = dockerfile_context.read(folder, folder / "Dockerfile")
    assert (found.name, found.text, found.ignored) == ("docker/one", "FROM a\n", ("secret", "!x"))
    (folder / "docker" / "one").write_text("FROM b\n")
    assert found.written(tmp_path).read_text() == "FROM a\n"
    other = tmp_path / "other"
    other.write_text("FROM c\n")
    (tmp_path / "other.dockerignore").write_text("all\n")
    beside = dockerfile_context.read(folder, other)
    assert (beside.text, (tmp_path / "Dockerfile.dockerignore").exists()) == ("FROM c\n", False)
    beside.written(tmp_path)
    assert (tmp_path / "Dockerfile.dockerignore").read_text() == "all\n"


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore"])
def test_no_file_leads_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    """Nor is one waited for, or read without end."""
    secret = tmp_path / "secret"
    secret.write_text("FROM secret\n")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    with pytest.raises(ImageError, match=r"leads out of the folder|cannot be read"):
        dockerfile_context.read(folder, folder / "Dockerfile")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ImageError, match="is not a regular file"):
        dockerfile_context.read(folder, folder / "Dockerfile")
    (folder / name).unlink()
    (folder / name).write_bytes(b"#" * (1 + max(dockerfile_context.LONGEST, 1 << 20)))
    with pytest.raises(ImageError, match="is longer than"):
        dockerfile_context.read(folder, folder / "Dockerfile")


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("debian:13", None), ("ada/app", None), ("localhost/app", "localhost"), ("a.b/c:1", "a.b"),
        ("127.0.0.1:5000/x@sha256:ab", "127.0.0.1"), ("[::1]:5000/x", "::1"), ("host:5000/x", "host"),
    ],
)  # fmt: skip
def test_the_registry_of_a_name(name: str, host: str | None) -> None:
    assert dockerfile_context.registry_host(name) == host


@pytest.mark.parametrize(
    "text",
    [
        f"FROM a\nADD {URL} /x",
        f"FROM a\n  add\t{URL}\t/x",
        f"FROM a\nADD --chown=1 --checksum=sha256:ab {URL} /x",
        f'FROM a\nADD ["a", "{URL}", "/x"]',
        f'FROM a\nADD "{URL}" /x',
        'FROM a\nADD h"ttp://127.0.0.1:9/x" /x',
        "FROM a\nADD h\\ttp://127.0.0.1:9/x /x",
        f"FROM a\nADD \\\n# a comment\n\n  {URL} \\\n /x",
        f"FROM a\nADD a b {URL} /x",
        f"# escape=`\nFROM a\nADD `\n {URL} /x",
        f"\ufeffFROM a\r\nADD {URL} /x\r\n",
        f"FROM a\nONBUILD ADD {URL} /x",
        f"FROM a\nENV U={URL}\nADD $U /x",
        f"FROM a\nARG U={URL}\nADD ${{U}} /x",
        "FROM a\nARG U=ttp://127.0.0.1:9/x\nADD h$U /x",
        "FROM a\nADD git@127.0.0.1:a.git /x",
        "FROM a\nADD ssh://127.0.0.1/a.git /x",
        "FROM a\nADD HTTP://127.0.0.1/a /x",
        # A builder without here-documents sees the line; one with them does not.
        f"FROM a\nRUN <<EOF\nADD {URL} /x\nEOF",
        # The end of a here-document that another reader takes for a line that continues.
        f'FROM a\nRUN <<"E\\"\necho\nE\\\nADD {URL} /x',
        "# syntax=evil/frontend:1\nFROM a",
        "#Syntax = evil/frontend\nFROM a",
        "// syntax=evil/frontend\nFROM a",
        "#!/usr/bin/env x\n# syntax=evil/frontend\nFROM a",
        '{"syntax": "evil/frontend"}',
        "# syntax=127.0.0.1:5000/docker/dockerfile:1\nFROM a",
        "FROM a\nRUN --network=host true",
        "FROM a\nRUN --security=insecure true",
        "FROM a\nARG X=127.0.0.1:9/x\nCOPY --from=$X /x /x",
        "FROM a\nRUN --mount=type=bind,from=${A[0]} x",
        "FROM ${A%%b}",
    ],
)
def test_sources_for_the_engine_are_found(text: str) -> None:
    assert dockerfile_context.fetched_by(text, {}).remote


@pytest.mark.parametrize(
    "text",
    [
        "FROM a\nADD app.tar.gz /x\nADD . /y",
        'FROM a\nADD ["app one.tar", "/x"]',
        "FROM a\nARG V=1\nADD target/app-$V.jar /app.jar",
        f"FROM a\nRUN curl {URL}\nCOPY {URL} /x",
        f"FROM a\n# ADD {URL} /x\nRUN echo '\\\n# ADD {URL} /x\n'",
        "# syntax=docker/dockerfile:1.7-labs\nFROM a",
        "# syntax=docker.io/docker/dockerfile\nFROM a",
        "FROM a\nRUN <<EOF\nfrom os import path\ncopy this that\nEOF",
        "FROM a AS b\nFROM b\nCOPY --from=b /x /x\nCOPY --from=0 /y /y",
    ],
)
def test_files_of_the_folder_are_not_fetched(text: str) -> None:
    found = dockerfile_context.fetched_by(text, {})
    assert (found.remote, list(found.images)) == ([], ["a"])


@pytest.mark.parametrize("name", ["BUILDKIT_SYNTAX", "buildkit_context_keep_git_dir"])
def test_arguments_do_not_choose_the_reader(name: str) -> None:
    assert dockerfile_context.fetched_by("FROM a", {name: "evil/frontend"}).remote


def test_images_are_found_with_the_values_of_arguments() -> None:
    """Names that an argument decides, as the builder puts them together."""
    text = (
        "ARG R=registry.example\nARG T='3'\nARG BASE=$R/base:${T:-1}\nFROM $BASE AS one\n"
        "FROM --platform=$BUILDPLATFORM ${OTHER:-debian}:13\nFROM scratch\n"
        "COPY --from=copied:1 /x /x\nRUN --mount=type=bind,from=mounted,target=/m true\n"
        "FROM --platform=linux/s390x last\nARG R=elsewhere\nFROM $R/x\n"
    )
    found = dockerfile_context.fetched_by(text, {"T": "4"})
    expected = ["registry.example/base:4", "debian:13", "copied:1", "mounted", "last", "registry.example/x"]
    assert (found.remote, list(found.images), list(found.platforms)) == ([], expected, ["linux/s390x"])
    assert "127.0.0.1:9/x" in dockerfile_context.fetched_by("ARG B=a\nFROM $B", {"B": "127.0.0.1:9/x"}).images


def test_arguments_made_of_arguments_are_bounded() -> None:
    """Each of them is the previous one, twice: a thousand would be longer than memory."""
    made = "".join(f"ARG A{n + 1}=$A{n}$A{n}\n" for n in range(1000))
    found = dockerfile_context.fetched_by(f"ARG A0=0123456789\n{made}FROM a:$A5\nFROM a:$A1000", {})
    assert f"a:{'0123456789' * 32}" in found.images
    assert all(len(name) <= dockerfile_context.LONGEST_VALUE + 2 for name in found.images)
    assert any("more than 65536 characters" in each for each in found.remote)


def test_lists_within_lists_are_words() -> None:
    """Nesting beyond the depth to which JSON is read has the form of a shell."""
    assert dockerfile_context.fetched_by(f"FROM a\nADD {'[' * 100_000} /x\nADD {URL} /x", {}).remote == [
        f"ADD {URL}"
    ]


@pytest.mark.parametrize(
    "text",
    [
        # A builder without here-documents sees the line; one with them does not, and the other way round.
        "FROM a\nRUN <<EOF\nCOPY --from=evil:1 / /\nEOF",
        'FROM a\nRUN <<"E\\"\necho\nE\\\nCOPY --from=evil:1 / /',
    ],
)
def test_images_count_in_each_reading(text: str) -> None:
    """Text that only one of two builders takes for a step names an image all the same."""
    assert "evil:1" in dockerfile_context.fetched_by(text, {}).images
