"""The gateway's files: policies by address, and the record of refusals."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.runtime.gateway import refusal_log
from holdfast.runtime.gateway.refusal_log import Refusals, RefusedHost
from holdfast.runtime.gateway.session_rules import Policies, SessionRules


def test_a_policy_is_the_present_one_of_its_address(tmp_path: Path) -> None:
    """Written, replaced, removed, damaged; nothing but an address leads to a file."""
    policies, path = Policies(tmp_path), tmp_path / "172.18.0.5.json"
    assert policies.of("172.18.0.5") is None

    path.write_text(SessionRules("one").dump())
    assert policies.of("::ffff:172.18.0.5") == policies.of("172.18.0.5") == SessionRules("one")
    (tmp_path / "new").write_text(SessionRules("two").dump())
    (tmp_path / "new").replace(path)
    assert policies.of("172.18.0.5") == SessionRules("two")
    path.write_text("{}")
    assert policies.of("172.18.0.5") is None
    path.unlink()
    assert policies.of("172.18.0.5") is None
    (tmp_path / "x.json").write_text(SessionRules("one").dump())
    assert policies.of("x") is None


def test_refusals_are_read_as_written_and_bounded(tmp_path: Path) -> None:
    """A repeated one counts once; a session that is refused without end keeps the last ones."""
    written = Refusals(tmp_path)
    for second in range(50):
        written.add("s", "a.org", 443, 1000.0 + second)
    assert refusal_log.read(tmp_path, "s") == [RefusedHost(1000.0, "a.org", 443)]

    for number in range(12_000):
        written.add("s", f"host-{number}.example.org", 443, 2000.0 + number)
    found = refusal_log.read(tmp_path, "s")
    assert found[-1].host == "host-11999.example.org"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * refusal_log.MOST + 1000


def test_a_file_of_refusals_is_not_trusted(tmp_path: Path) -> None:
    """Malformed lines, escapes for a terminal, a link, a pipe: none gets through or blocks the reader."""
    lines = ['{"at": 1, "host": "a.org", "port": 1}', "", "{", "[1]", '{"at": 1, "host": 2, "port": 1}',
             '{"at": 1, "host": "\\u001b[31m", "port": 1}', '{"at": "x", "host": "a", "port": 1}',
             '{"at": 1, "host": "a", "port": 99999}', "[" * 100_000]  # fmt: skip
    (tmp_path / "s").write_text("\n".join(lines))
    assert refusal_log.read(tmp_path, "s") == [RefusedHost(1.0, "a.org", 1)]

    (tmp_path / "link").symlink_to(tmp_path / "s")
    os.mkfifo(tmp_path / "pipe")
    assert refusal_log.read(tmp_path, "link") == refusal_log.read(tmp_path, "pipe") == []
    held = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)  # by one who writes nothing
    assert refusal_log.read(tmp_path, "pipe") == []
    os.close(held)
