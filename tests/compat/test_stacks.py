"""Images with more packages are named by their content, the session image included."""

from pathlib import Path

import pytest
from tests.compat import stacks

from holdfast.errors import InvalidArgument
from holdfast.images import build


def test_each_stack_has_an_image_of_its_own() -> None:
    """Other packages, another tag; the same packages, the same tag."""
    tags = [stacks.reference(name) for name in stacks.STACKS]
    assert len(set(tags)) == len(tags)
    assert tags == [stacks.reference(name) for name in stacks.STACKS]


def test_another_session_image_gives_another_stack(tmp_path: Path) -> None:
    """An image built on the old one is not taken for one built on the new."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n")
    environ = {"SSL_CERT_FILE": str(bundle)}

    assert build.reference("session", environ) != build.reference("session")
    assert stacks.reference("tools", environ) != stacks.reference("tools")


def test_the_lists_are_in_the_context() -> None:
    """One file for each package manager, one package in a line."""
    files = stacks.context("node").files
    assert files["programs/apt"].data.split() == [b"nodejs", b"npm"]
    assert files["programs/pip"].data == b""
    assert "programs/Dockerfile" in files


def test_an_unknown_stack_is_refused() -> None:
    """By name, with the list of stacks."""
    with pytest.raises(InvalidArgument, match="'cobol'"):
        stacks.context("cobol")
