"""Servers of a home are found while they run, and not after they were killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from holdfast.base import serving_record
from holdfast.base.home import Home
from holdfast.base.serving_record import ServingRecord

ONE = ServingRecord("http://127.0.0.1:1", "http://localhost:1", serving_record.stamp_of("one"))
SERVER = """
import sys, time
from holdfast.base import serving_record
from holdfast.base.home import Home
with serving_record.announced(Home(sys.argv[1]), serving_record.ServingRecord("u", "p", "s")):
    print("here", flush=True)
    time.sleep(3600)
"""


def test_a_server_is_found_while_it_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert serving_record.running(home) == []
    with serving_record.announced(home, ONE):
        assert serving_record.running(home) == [ONE]
        (file,) = (tmp_path / "serving").iterdir()
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        file.with_name("other.json").write_text("{}")
    assert serving_record.running(home) == []
    assert list((tmp_path / "serving").iterdir()) == []


def test_the_record_of_a_killed_server_is_forgotten(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SERVER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        assert serving_record.running(Home(tmp_path)) == [ServingRecord("u", "p", "s")]
        server.send_signal(signal.SIGKILL)
    assert serving_record.running(Home(tmp_path)) == []
    assert list((tmp_path / "serving").iterdir()) == []


def test_a_stamp_shows_which_token_it_is_and_not_the_token() -> None:
    assert serving_record.stamp_of("one") == ONE.stamp != serving_record.stamp_of("two")
