"""The command an image would run, from its configuration."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.api.session_start import entrypoint_command


@pytest.mark.parametrize(
    ("config", "argv"),
    [
        ({}, []),
        ({"Entrypoint": None, "Cmd": None}, []),
        ({"Cmd": ["sh"]}, ["sh"]),
        ({"Entrypoint": ["/run", "it's"], "Cmd": ["-x"]}, ["/run", "it's", "-x"]),
    ],
)
def test_arguments_follow_the_program(config: dict[str, Any], argv: list[str]) -> None:
    assert entrypoint_command(config) == argv
