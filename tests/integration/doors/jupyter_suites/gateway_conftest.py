"""Our server in the place of the Jupyter server that the tests of jupyter-kernel-client start.

Each of them expects a new kernel, so it is restarted before each.
"""

from __future__ import annotations

import os

import pytest
import requests


@pytest.fixture
def jupyter_server() -> tuple[str, str]:
    port, token = os.environ["HOLDFAST_URL"].rpartition(":")[2], os.environ["HOLDFAST_TOKEN"]
    place, known = f"http://localhost:{port}/api/kernels", {"Authorization": f"token {token}"}
    (kernel,) = requests.get(place, headers=known, timeout=60).json()
    requests.post(f"{place}/{kernel['id']}/restart", headers=known, timeout=60).raise_for_status()
    return port, token
