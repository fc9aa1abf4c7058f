"""Paths of a sandbox's metrics and network."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import sandbox_facts
from holdfast.runtime.e2b.control import network_wishes, sandbox_answers
from holdfast.runtime.e2b.control.control_caller import ControlCaller, control_caller
from holdfast.runtime.e2b.control.network_wishes import NetworkUpdate
from holdfast.runtime.pulse.limits import Limits

router = APIRouter()
From = Annotated[ControlCaller, Depends(control_caller)]
BETWEEN_SECONDS = 0.2
"""Between the two samples that give the use of processors."""


def metric(
    before: tuple[float, Limits], after: tuple[float, Limits], cpus: int, disk: tuple[int, int]
) -> dict[str, Any]:
    """Return the metrics from two samples, with the bytes used and the size of the disk.  Pure.

    Root in the session can forge the samples: nothing is decided by them.
    """
    (then, first), (at, last) = before, after
    used = (last.cpu.seconds or 0.0) - (first.cpu.seconds or 0.0)
    share = 100 * max(0.0, used) / max(at - then, 0.001) / cpus
    return {
        "timestamp": sandbox_answers.written(datetime.now(UTC)),
        "timestampUnix": int(time.time()),
        "cpuCount": cpus,
        "cpuUsedPct": round(min(share, 100.0), 2),
        "memUsed": last.memory.used or 0,
        "memTotal": last.memory.limit or 0,
        "memCache": last.memory.cache or 0,
        "diskUsed": disk[0],
        "diskTotal": disk[1],
    }


@router.get("/sandboxes/{sandbox}/metrics")
async def metrics(
    who: From, sandbox: str, start: int | None = None, end: int | None = None
) -> list[dict[str, Any]]:
    """Return the present figures; earlier ones are not kept."""

    def look(found: Session) -> tuple[float, Limits] | None:
        limits = found.pulse(parts=("limits",)).limits
        return None if limits is None else (time.monotonic(), limits)

    def work(found: Session) -> list[dict[str, Any]]:
        now = time.time()
        if found.state != "running" or (start or 0) > now or (end is not None and end < int(now)):
            return []
        before = look(found)
        time.sleep(BETWEEN_SECONDS)
        after = look(found)
        if before is None or after is None:
            return []
        hf, row = who.holdfast(), found.row
        total = int(row.options.get("disk") or 0) or sandbox_answers.disk_size(str(hf.home.root))
        disk = hf.engine.files.written(row.container_id or ""), total
        return [metric(before, after, sandbox_answers.processors(row), disk)]

    return await who.in_session(sandbox, work)


@router.put("/sandboxes/{sandbox}/network", status_code=204)
async def change_network(who: From, sandbox: str, body: NetworkUpdate) -> Response:
    """Replace the rules of a sandbox's network."""
    wish = network_wishes.wish(body.allow_internet_access, body)

    def work(found: Session) -> None:
        options = found.row.options
        now, wanted = options.get("network", "internet"), wish.network or "internet"
        if now != wanted:
            raise InvalidArgument(
                f"cannot change the network of a sandbox from {now} to {wanted} while it lives",
                hint="choose it when a sandbox is made, for example from a snapshot of this one",
            )
        known = set(options.get("domains", ()))
        more, less = sorted(set(wish.domains) - known), sorted(known - set(wish.domains))
        if more or less:
            found.change_network(domains=more, no_domains=less)
        if (public := body.allow_public_traffic) is not None:
            sandbox_facts.change(
                who.holdfast().store,
                found.id,
                lambda facts: facts.model_copy(update={"public_ports": public}),
            )

    await who.in_session(sandbox, work)
    return Response(status_code=204)
