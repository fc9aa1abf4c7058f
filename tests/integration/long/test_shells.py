"""Shells of images of other releases: each driven with the same exact ends, captured live, and restored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.integration.any_image import image, release

from holdfast.runtime.api.controller import Holdfast

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("suite", ["bullseye", "bookworm"])
def test_zsh(hf: Holdfast, image: Callable[..., str], suite: str) -> None:
    """As root and as a user without a home, who cannot write the supervisor's files."""
    name = release(hf, image, suite, "zsh")
    for user in (None, "1000"):
        session = hf.new(image=name, shell="zsh", user=user)
        assert session.exec("cd /; held=kept; f() { echo $held-$1-$ZSH_NAME }; export GIVEN=1").ok
        assert session.exec("(exit 4)").exit_code == 4
        assert session.exec("read 'name?name? '", timeout=20).waiting
        assert session.answer("ada\n").ok
        assert session.exec("sleep 1000", timeout=1).exit_code == 130
        taken = session.snapshot()
        assert taken.kind == "live"
        copies = [*session.fork(2), taken.restore()]
        drawn = set()
        for copy in copies:
            shown = copy.exec("f $name; pwd; echo $HOLDFAST_NAME; echo $RANDOM; (exit 5)")
            assert shown.exit_code == 5
            assert shown.text.splitlines()[:3] == ["kept-ada-zsh", "/", copy.name]
            drawn.add(shown.text.splitlines()[3])
        assert len(drawn) > 1
        again = session.snapshot(kind="filesystem").restore()
        assert again.exec("echo $ZSH_NAME-$held").text == "zsh-\n"


@pytest.mark.parametrize("suite", ["bookworm", "trixie", "sid"])
def test_fish(hf: Holdfast, image: Callable[..., str], suite: str) -> None:
    """Versions 3.6, 4.0 and newer; its scopes and its random numbers are its own."""
    session = hf.new(image=release(hf, image, suite, "fish"), shell="fish")
    assert session.exec("echo one; false").text == "one\n"
    assert session.exec("cd /; set -g held kept; function f; echo $held-$argv; end").ok
    assert session.exec("sh -c 'exit 4'").exit_code == 4
    assert session.exec("read -g -P 'name? ' name", timeout=20).waiting
    assert session.answer("ada\n").ok
    assert session.exec("sleep 1000", timeout=1).exit_code == 130
    taken = session.snapshot()
    assert taken.kind == "live"
    copies = [*session.fork(2), taken.restore()]
    drawn = set()
    for copy in copies:
        shown = copy.exec("f $name; pwd; echo $HOLDFAST_NAME; random; sh -c 'exit 5'")
        assert shown.exit_code == 5
        assert shown.text.splitlines()[:3] == ["kept-ada", "/", copy.name]
        drawn.add(shown.text.splitlines()[3])
    assert len(drawn) > 1
