"""Starts trials where mitmproxy is: in the gateway's image, without a network."""

from __future__ import annotations

from pathlib import Path

from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast

ROOT = Path(__file__).parents[2]


def altered(hf: Holdfast, seed: str, rounds: int) -> str:
    """Return the output of `gateway_parsers`; a misread input is an error."""
    return in_gateway_image(hf, "tests.parsers.gateway_parsers", seed, str(rounds))


def in_gateway_image(hf: Holdfast, *words: str) -> str:
    """Return the output of a module there; a status other than 0 is an error of the container."""
    printed: bytes = hf.engine.client.containers.run(
        build.ensure(hf.engine.images, "gateway"),
        ["/opt/python/bin/python", "-m", *words],
        remove=True,
        network_mode="none",
        read_only=True,
        stderr=True,
        working_dir="/repo",
        environment={"PYTHONPATH": "/repo:/repo/src", "PYTHONDONTWRITEBYTECODE": "1"},
        volumes={str(ROOT): {"bind": "/repo", "mode": "ro"}},
    )
    return printed.decode()
