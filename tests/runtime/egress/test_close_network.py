"""The addresses that the options of a session open and close, when its rules are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.egress import home_network
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.sessions.session_options import SessionOptions

NO_ENGINE: Any = cast("Any", None)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def closing(tmp_path: Path, said: list[str]) -> Closing:
    home = Home(tmp_path).create()
    (home.root / home_network.NAME).write_text('{"allow": ["127.0.0.2:53"]}')
    return Closing(NO_ENGINE, home, said.append)


def test_a_name_at_a_denied_address_is_named(closing: Closing, said: list[str]) -> None:
    """It stays closed; addresses that the home opens, or a name that is open, are not reported."""
    options = SessionOptions.parse(allow=["localhost:80"], deny=["127.0.0.0/8", "::1"])
    wishes = closing._wishes(options)

    assert all(wishes.is_denied(one.network) for one in wishes.others)
    assert "network: localhost:80 is at 127.0.0.1:80, which is denied; it stays closed" in said
    said.clear()
    assert closing._wishes(SessionOptions.parse(allow=["localhost:80"], deny=["9.9.9.9"])).denied
    assert said == []


@pytest.mark.parametrize("place", ["10.0.0.5", "192.168.0.0/16", "[fd00::1]", "169.254.169.254"])
def test_private_networks_are_not_allowed_without_a_port(closing: Closing, place: str) -> None:
    """Else it would be an option without an effect; in an open network it has one."""
    with pytest.raises(InvalidArgument, match=r"is not on the internet, and lacks a port"):
        closing.check_names(SessionOptions.parse(allow=[place]))
    closing.check_names(SessionOptions.parse(allow=[place], network="open"))
    closing.check_names(SessionOptions.parse(allow=["1.1.1.1", "0.0.0.0/0", f"{place}:80"]))


@pytest.mark.parametrize("key", ["allow", "close"])
def test_the_home_opens_nothing_without_a_port(closing: Closing, key: str) -> None:
    (closing.home.root / home_network.NAME).write_text(f'{{"{key}": ["1.1.1.1"]}}')
    with pytest.raises(StoreError, match=r"1\.1\.1\.1 of .* lacks a port"):
        home_network.read(closing.home)
