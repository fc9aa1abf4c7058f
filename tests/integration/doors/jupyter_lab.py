"""A JupyterLab of a person, in an environment of its own, and its notebooks in a real browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.doors.chromium import PATIENCE, Page
from tests.integration.doors.conftest import SUITES
from tests.integration.served import Served

from holdfast.base import polling

ENVIRONMENT = SUITES / "jupyter"
TOKEN = "the-token-of-jupyterlab"
RUN = """async () => {
  const app = window.jupyterapp;
  await app.commands.execute("notebook:run-all-cells");
}"""
IDLE = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  return Boolean(kernel) && kernel.connectionStatus === "connected" && kernel.status === "idle";
}"""
OUTPUT = """(text) => [...document.querySelectorAll(".jp-OutputArea-output")]
  .some(each => each.innerText.includes(text))"""
PLOT = """() => [...document.querySelectorAll(".jp-OutputArea-output img[src^='data:image/png']")]
  .some(each => each.complete && each.naturalWidth > 100)"""


class Lab:
    """A running JupyterLab, and the folder of its notebooks."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def notebook(self, name: str, spec: str, cells: Sequence[str]) -> str:
        """Write a notebook for a kernel of this spec, and return its address."""
        made = [
            {"cell_type": "code", "id": f"c{n}", "source": code, "metadata": {}, "outputs": []}
            | {"execution_count": None}
            for n, code in enumerate(cells)
        ]
        chosen = {"kernelspec": {"name": spec, "display_name": spec, "language": "python"}}
        whole = {"cells": made, "metadata": chosen, "nbformat": 4, "nbformat_minor": 5}
        (self.folder / f"{name}.ipynb").write_text(json.dumps(whole))
        return f"{self.url}/lab/tree/{name}.ipynb?reset&token={TOKEN}"


def opened(page: Page, url: str) -> None:
    """Show a notebook, and wait until its kernel is there."""
    page.open(url)
    page.until(IDLE)


@contextmanager
def lab(server: Served, folder: Path) -> Iterator[Lab]:
    """Run JupyterLab with the kernels of a server, as the page on Jupyter has it."""
    program = ENVIRONMENT / "bin" / "jupyter"
    assert program.exists(), "JupyterLab is not installed: `make test-doors` does it"
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    environment = {
        **os.environ,
        "JUPYTER_GATEWAY_AUTH_TOKEN": server.token,
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "HOME": str(folder),
        "PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}",
    }
    command = [str(program), "lab", f"--gateway-url={server.url}", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--IdentityProvider.token={TOKEN}"]
    command += [
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        f"--ServerApp.root_dir={notebooks}",
    ]
    log = folder / "lab.log"
    with log.open("wb") as told, subprocess.Popen(command, env=environment, stdout=told, stderr=told) as run:
        try:
            assert polling.until(lambda: _address(log) is not None, PATIENCE, 0.2), log.read_text()[-4000:]
            yield Lab(str(_address(log)), notebooks)
        finally:
            run.terminate()
            try:
                run.wait(30)
            except subprocess.TimeoutExpired:
                run.kill()  # it waits for a server that is not there any more


def _address(log: Path) -> str | None:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/lab", log.read_text())
    return f"http://127.0.0.1:{found[1]}" if found else None
