"""An exported file is an ordinary image to tools that do not know Holdfast."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from holdfast.runtime.api.controller import Holdfast


def test_an_engine_loads_the_file_and_runs_the_files_of_the_session(hf: Holdfast, tmp_path: Path) -> None:
    """`docker load`, `docker run`: no live state, no variables of the session, no supervisor."""
    session = hf.new("work", env={"SESSION_TOKEN": "secret"})
    session.exec("echo text > /workspace/file")
    taken = session.snapshot("moment")
    session.remove()
    file = tmp_path / "moment.tar"
    first = taken.export(file)
    assert taken.export(tmp_path / "again.tar").digest == first.digest
    assert file.read_bytes() == (tmp_path / "again.tar").read_bytes()
    with tarfile.open(file) as archive:
        layout = archive.extractfile("oci-layout")
        assert layout is not None
        assert json.load(layout) == {"imageLayoutVersion": "1.0.0"}

    loaded = subprocess.run(["docker", "load", "-i", file], capture_output=True, text=True, check=True).stdout
    image = loaded.strip().rpartition(" ")[2]
    try:
        command = [
            "docker",
            "run",
            "--rm",
            "--network",
            "none",
            image,
            "sh",
            "-c",
            "cat file; env; ps ax | wc -l",
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = hf.engine.client.images.get(image).attrs["Config"]
    finally:
        hf.engine.images.remove(image)
    assert ran.startswith("text\n")
    assert "SESSION_TOKEN" not in ran
    assert int(ran.splitlines()[-1]) < 6
    assert found["Cmd"] == ["bash"]
    assert not found["Labels"]
