"""Run by pytest of a framework's own environment; variables name the session that the tests use."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def url() -> str:
    return os.environ["HOLDFAST_URL"]


@pytest.fixture(scope="session")
def name() -> str:
    return os.environ["HOLDFAST_SESSION"]
