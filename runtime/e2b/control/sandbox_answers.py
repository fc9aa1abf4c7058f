"""Sandboxes as answers have them: a session's row, its facts and its tokens.  Pure."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from typing import Any

from holdfast.base import ids
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.lifecycle import chosen_image
from holdfast.runtime.store.rows import SessionRow

ENVD_VERSION = "0.6.4"
"""What of the processes and files of this wire sandboxes have, as E2B counts its versions."""
CLIENT = "holdfast"
TEMPLATE_IMAGES = {
    "base": None,
    "code-interpreter-v1": chosen_image.DATA,
    "code-interpreter": chosen_image.DATA,
}
"""The images that templates of E2B stand for here; None for the session image."""
NO_END = "9999-01-01T00:00:00Z"
"""Clients want an end of every sandbox; this is that of one that has none."""


def made(row: SessionRow, tokens: SandboxTokens, domain: str) -> dict[str, Any]:
    """Return what a client needs to reach a sandbox."""
    facts = SandboxFacts.of(row) or SandboxFacts()
    found = {
        "templateID": facts.template,
        "sandboxID": row.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": tokens.access(row.id),
        "trafficAccessToken": tokens.traffic(row.id),
        "domain": domain,
    }
    return found | _alias(facts)


def listed(row: SessionRow, disk: int) -> dict[str, Any]:
    """Return a sandbox as a list has it; `disk` is the size of the machine's, in bytes."""
    facts = SandboxFacts.of(row) or SandboxFacts()
    options = row.options
    found = {
        "templateID": facts.template,
        "sandboxID": row.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "startedAt": written(row.created_at),
        "endAt": NO_END if facts.ends_at is None else written(datetime.fromtimestamp(facts.ends_at, UTC)),
        "cpuCount": processors(row),
        "memoryMB": int(options.get("memory") or 0) >> 20,
        "diskSizeMB": int(options.get("disk") or disk) >> 20,
        "metadata": facts.metadata,
        "state": "paused" if row.state == "suspended" else "running",
    }
    return found | _alias(facts)


def detailed(row: SessionRow, tokens: SandboxTokens, domain: str, disk: int) -> dict[str, Any]:
    """Return everything of a sandbox."""
    facts = SandboxFacts.of(row) or SandboxFacts()
    network = row.options.get("network", "internet")
    found = made(row, tokens, domain) | listed(row, disk)
    found |= {
        "allowInternetAccess": network in ("internet", "open"),
        "lifecycle": {"autoResume": facts.auto_resume, "onTimeout": facts.at_end},
    }
    if network == "domains":
        allowed = list(row.options.get("domains", ()))
        found["network"] = {"allowOut": allowed, "denyOut": ["0.0.0.0/0"]} | _ports(facts)
    elif facts.public_ports or facts.request_host:
        found["network"] = _ports(facts)
    if row.state == "suspended":
        found["pauseMode"] = "filesystem" if facts.files_only else "full"
    return found


def processors(row: SessionRow) -> int:
    """Return how many processors a sandbox may use; a part of one counts as one."""
    return max(1, round(float(row.options.get("cpus") or os.cpu_count() or 1)))


def disk_size(folder: str) -> int:
    """Return the bytes of the disk that a folder is on."""
    return shutil.disk_usage(folder).total


def written(moment: datetime) -> str:
    """Return a time as clients read it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ports(facts: SandboxFacts) -> dict[str, Any]:
    told: dict[str, Any] = {"allowPublicTraffic": facts.public_ports}
    return told | ({"maskRequestHost": facts.request_host} if facts.request_host else {})


def _alias(facts: SandboxFacts) -> dict[str, str]:
    return {} if re.fullmatch(ids.ID, facts.template) else {"alias": facts.template}
