"""Rules for packets between programs of a session, which a test adds to its network namespace."""

from __future__ import annotations

import subprocess

from holdfast.images import build
from holdfast.runtime.api.session import Session

_ADD = """
import sys, nftables
code, _, errors = nftables.Nftables().cmd(
    "add table inet tests\\n"
    "add chain inet tests i { type filter hook input priority -20; policy accept; }\\n"
    f"add rule inet tests i {sys.argv[1]}\\n"
)
assert code == 0, errors
"""


def add(session: Session, rule: str) -> None:
    """Add a rule of nft(8) for arriving packets; copies do not have it."""
    given = ["--user=0", "--cap-add=NET_ADMIN", f"--network=container:{session.row.container_id}"]
    image = build.reference("toolbox")
    done = subprocess.run(
        ["docker", "run", "--rm", *given, "--entrypoint=python3", image, "-c", _ADD, rule],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
