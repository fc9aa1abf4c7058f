"""Which settings for proxies are handed to a build."""

from __future__ import annotations

import pytest

from holdfast.images import proxy_settings


def test_only_proxy_settings_are_handed_to_a_build() -> None:
    """Nothing else of the host's environment enters an image."""
    environ = {
        "https_proxy": "http://proxy:3128",
        "NO_PROXY": "",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PATH": "/bin",
    }

    assert proxy_settings.both_spellings(environ) == {
        "https_proxy": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
    }


def test_capital_letters_are_handed_on_in_small_ones() -> None:
    """apt reads only those; where both are set, they win."""
    environ = {"HTTP_PROXY": "http://big:1", "http_proxy": "http://small:1", "NO_PROXY": "inside"}

    assert proxy_settings.both_spellings(environ) == {
        "http_proxy": "http://small:1",
        "HTTP_PROXY": "http://small:1",
        "no_proxy": "inside",
        "NO_PROXY": "inside",
    }


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://127.0.0.1:3128", True),
        ("localhost:3128", True),
        ("http://user:word@[::1]:3128/", True),
        ("http://proxy.example:3128", False),
        ("10.0.0.1:3128", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_a_proxy_of_this_machine_is_recognized(address: str, here: bool) -> None:
    assert proxy_settings.on_this_machine({"HTTPS_PROXY": address}) == here
    assert not proxy_settings.on_this_machine({"no_proxy": address})
