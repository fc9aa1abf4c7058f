"""A host whose inotify instances are nearly used up is reported, before a capture fails for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.doctor.doctor import inotify_check


@pytest.mark.parametrize(("most", "ok"), [(128, True), (19, True), (18, False)])
def test_few_free_instances_are_a_finding(tmp_path: Path, most: int, ok: bool) -> None:
    (tmp_path / "sys/fs/inotify").mkdir(parents=True)
    (tmp_path / "sys/fs/inotify/max_user_instances").write_text(f"{most}\n")
    for pid, links in (("1", ["anon_inode:inotify", "socket:[5]"]), ("27", ["anon_inode:inotify"] * 2)):
        (tmp_path / pid / "fd").mkdir(parents=True)
        for number, link in enumerate(links):
            (tmp_path / pid / "fd" / str(number)).symlink_to(link)
    found = inotify_check(tmp_path)
    assert (found.ok, found.detail) == (ok, f"3 of {most} in use, as far as seen from here")
    assert bool(found.hint) != ok
