"""Checks of everything that Holdfast needs of a host.

Each check reports its finding and, where something is wrong, advice. None stops the others.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.base import home_filesystem, serving_record
from holdfast.base.home import TEAM_MARK, TEAMS, Home
from holdfast.base.quantities import gib_text
from holdfast.base.serving_record import ServingRecord
from holdfast.base.text import plain
from holdfast.engine import disk_limits, engine_place, image_store, machine_facts
from holdfast.engine.image_store import ImageStore
from holdfast.engine.machine_facts import security_options
from holdfast.errors import HoldfastError
from holdfast.runtime.guest_rpc.results import Check
from holdfast.runtime.lifecycle import pool_filler, pool_plan
from holdfast.runtime.store import quotas
from holdfast.runtime.store.beside_database import origin_of
from holdfast.runtime.store.store import Store

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

# pids.max, seccomp filters by argument and file-based capabilities as used here.
ENGINE_LEAST = (20, 10)
# A session image is about 1 GB, a snapshot as large as what it captures.
DISK_LEAST = 5 << 30
INOTIFY_LEAST = 16
ANSWER_SECONDS = 10.0
_FIXED = 13
"""Checks that every machine gets, the trial of a snapshot among them."""
"""Instances that are free for captures, which take one each, and for programs that watch files."""
_INOTIFY = Path("anon_inode:inotify")


def checks(context: Context) -> list[Check]:
    """Run all checks, in the order in which one builds on another."""
    return list(each(context))


def each(context: Context) -> Iterator[Check]:
    """Run the same checks, and yield each as it ends."""

    numbers = count(1)
    has_teams, servers = os.access(context.home.below(TEAMS), os.F_OK), serving_record.running(context.home)
    total = _FIXED + bool(context.home.has_gateway) + bool(pool_plan.read(context.home).size)
    total += has_teams + bool(servers)

    def tried(name: str, look: Callable[[], Check]) -> Check:
        context.doing(f"checking: {name}", next(numbers), total)
        try:
            return guarded(name, look)
        finally:
            context.idle()

    yield tried("state directory", lambda: _home(context))
    yield tried("disk space", lambda: _disk(context))
    if has_teams:
        yield tried("teams", lambda: _teams(context.home))
    if servers:
        yield tried("server", lambda: _servers(servers))
    engine = tried("engine", lambda: engine_check(context))
    yield engine
    yield tried("kernel", _kernel)
    yield tried("inotify instances", inotify_check)
    if not engine.ok:
        return
    yield tried("engine disk", lambda: _engine_disk(context))
    yield from selinux_check(security_options(context.engine.info()))
    images = [tried(f"{kind} image", partial(_image, context, kind)) for kind in ("session", "toolbox")]
    yield from images
    yield tried("shared folder", lambda: _shared_folder(context))
    yield tried("disk limit", lambda: _disk_limit(context))
    yield tried("proxies", lambda: _proxies(context))
    if context.home.has_gateway:
        yield tried("gateway", lambda: _gateway(context))
    if pool_plan.read(context.home).size:
        yield tried("pool", lambda: _pool(context))
    yield tried("leftovers", lambda: _leftovers(context))
    context.doing("checking: a session, a snapshot and a restore", total, total)
    found = _snapshots(context, all(check.ok for check in images))
    context.idle()
    yield from found


def guarded(name: str, look: Callable[[], Check]) -> Check:
    """Run a check; an error becomes its finding."""
    try:
        return look()
    except HoldfastError as error:
        return Check(name, False, str(error), error.hint)
    except OSError as error:
        return Check(name, False, plain(str(error)))


def _home(context: Context) -> Check:
    context.store.operations.open()
    root = context.home.root
    if not os.access(root, os.W_OK):
        return Check(
            "state directory", False, f"{root} is read-only", "set HOLDFAST_HOME to a folder that is writable"
        )
    home_filesystem.require(root)  # tried when it was made, but it may have been moved since
    return Check("state directory", True, str(root))


def _teams(home: Home) -> Check:
    """Check that each team can be served: its store and quota can be read, and it is not half removed."""
    found = []
    for name in sorted(each.name for each in Path(home.below(TEAMS)).iterdir()):
        team = Home(home.below(TEAMS, name))
        if not os.access(team.below(TEAM_MARK), os.F_OK):
            return Check("teams", False, f"the removal of {name} was cut short", f"holdfast team rm {name}")
        try:
            Store.open(team.create().database).usage()
            quotas.read(team.place)
        except HoldfastError as error:
            return Check("teams", False, f"{name}: {error}", error.hint)
        found.append(name)
    if (origin := origin_of(home.root)) is not None:
        try:
            origin.heads(home.root)
        except HoldfastError as error:
            return Check("teams", False, str(error), error.hint)
        found.append("shared with other machines")
    return Check("teams", True, ", ".join(found) or "none")


def _servers(running: Sequence[ServingRecord]) -> Check:
    """Check that each server of the home answers: a server that hangs keeps its record, and its port."""
    for each in running:
        try:
            _ask(serving_record.reached_here(each.url))
        except (OSError, HTTPException) as error:
            why = plain(str(error)) or type(error).__name__
            return Check(
                "server", False, f"{each.url} does not answer: {why}", "start `holdfast serve` again"
            )
    return Check("server", True, ", ".join(each.url for each in running))


def _ask(url: str) -> None:
    """Send a request to a server; any answer will do, and without the token it is a refusal.

    Raises:
        OSError, HTTPException: it does not answer within some seconds.
    """
    place = url.removeprefix("unix:")
    connection = HTTPConnection(urlsplit(url).netloc if place == url else "localhost", timeout=ANSWER_SECONDS)
    with closing(connection):
        if place != url:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(ANSWER_SECONDS)
            connection.sock.connect(place)
        connection.request("GET", "/health")
        connection.getresponse()


def _disk(context: Context) -> Check:
    free = shutil.disk_usage(context.home.root).free
    hint = "" if free >= DISK_LEAST else "free some space, or set HOLDFAST_HOME to a folder on another disk"
    return Check("disk space", not hint, f"{gib_text(free)} free", hint)


def engine_room(context: Context) -> int:
    """Return the free bytes where the engine keeps its data, as far as that is visible from here."""
    place = Path(str(context.engine.info().get("DockerRootDir") or "/"))
    for folder in (place, *place.parents):
        with suppress(OSError):  # not seen from here, or closed to this user
            return shutil.disk_usage(folder).free
    return 0


def _engine_disk(context: Context) -> Check:
    free = engine_room(context)
    hint = "" if free >= DISK_LEAST else "make room there: `docker system df` shows what takes it"
    return Check("engine disk", not hint, f"{gib_text(free)} free where it keeps images", hint)


def engine_check(context: Context) -> Check:
    """Check which engine it is, and whether sessions are known to work with it."""
    info = context.engine.info()
    version = str(info.get("ServerVersion", "?"))
    cgroup, driver = info.get("CgroupVersion", "1"), info.get("Driver", "?")
    if context.engine.unfit:
        return Check("engine", False, context.engine.unfit, machine_facts.INSTEAD)
    detail = plain(f"Docker {version}, {driver}, cgroup v{cgroup}{engine_place.find().named}")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < ENGINE_LEAST:
        return Check("engine", False, detail, "upgrade Docker to 20.10 or newer")
    store = image_store.kind(info)
    if store is ImageStore.OTHER:
        detail += (
            ": its layers cannot be read, so a live snapshot freezes a session until it has committed them"
        )
    if store is ImageStore.CONTAINERD:
        detail += ", containerd image store"
    return Check("engine", True, detail)


def selinux_check(options: frozenset[str]) -> list[Check]:
    """Report an engine that labels containers, by its security options. Pure.

    A host that enforces SELinux only for other programs needs no report.
    """
    if "selinux" not in options:
        return []
    detail = (
        "the engine labels containers, which is untested with Holdfast: sessions may be denied the home, "
        "and restores are refused, as CRIU cannot give labels back; what follows tries both"
    )
    hint = 'set `"selinux-enabled": false` in daemon.json: SELinux stays in force for all but containers'
    return [Check("SELinux", False, detail, hint)]


def _kernel() -> Check:
    return Check("kernel", True, f"Linux {platform.release()} on {platform.machine()}")


def inotify_check(root: Path = Path("/proc")) -> Check:
    """Check how many inotify instances, which captures and watches need, are left to the user of sessions.

    The kernel counts them by user (inotify(7)); sessions run as root of the host's user namespace.
    """
    most = int((root / "sys/fs/inotify/max_user_instances").read_text())
    used = 0
    for link in root.glob("[0-9]*/fd/*"):
        with suppress(OSError):
            used += link.readlink() == _INOTIFY
    hint = "" if most - used >= INOTIFY_LEAST else "`sysctl fs.inotify.max_user_instances=1024` on the host"
    return Check("inotify instances", not hint, f"{used} of {most} in use, as far as seen from here", hint)


def _image(context: Context, kind: str) -> Check:
    from holdfast.images import authorities, build

    made_of = build.context(kind)
    tag = f"holdfast/{kind}:{made_of.digest}"
    if context.engine.images.exists(tag):
        return Check(f"{kind} image", True, tag)
    if relative := authorities.find(context.engine.images, made_of):
        advice = f"`holdfast image build`; or {relative.hint(tag)}"
        return Check(f"{kind} image", False, f"{tag} is not built; {relative}", advice)
    return Check(f"{kind} image", False, f"{tag} is not built", "`holdfast image build`")


def _shared_folder(context: Context) -> Check:
    """Check whether a session can fill the state directory through the folder it shares with this host."""
    from holdfast.runtime.sessions import shared_folder
    from holdfast.snapshots.checkpointer.container import rooms

    trouble = shared_folder.trouble(context.engine, context.home)
    if not trouble:
        return Check("shared folder", True, f"at most {rooms.SIZE >> 20} MiB and {rooms.INODES} files each")
    return Check(
        "shared folder",
        False,
        f"sessions can fill {context.home.root} through it: {trouble}",
        "run it where the engine runs, in its mount namespace, or put the state "
        "directory on a disk of its own",
    )


def _disk_limit(context: Context) -> Check:
    """Report whether the files of sessions are limited. That is optional, but users should know."""
    why = context.engine.disk_fault
    if why:
        return Check("disk limit", True, f"a session can fill the engine's disk: {why}")
    return Check("disk limit", True, f"{disk_limits.DEFAULT >> 30} GiB of files each, or the limit of --disk")


def _proxies(context: Context) -> Check:
    """Report whether sessions can use a proxy. It can be intended, but users should know."""
    from holdfast.runtime.egress import home_network

    found = ", ".join(str(one) for one in home_network.ways_out(context.home))
    if not found:
        return Check("proxies", True, "sessions cannot use a proxy")
    summary = f"sessions reach everything behind {plain(found, 200)}"
    return Check(
        "proxies", True, f"{summary}; `close` in {home_network.NAME} of the state directory shuts it"
    )


def _gateway(context: Context) -> Check:
    """Check that the gateway answers, if a session needs it, as it answers unknown clients."""
    from holdfast.runtime.egress import gateway
    from holdfast.runtime.sessions.session_options import SessionOptions

    rows = [row for row in context.store.sessions() if row.state == "running"]
    count = sum(SessionOptions.parse(**row.options).by_gateway for row in rows)
    place = gateway.known(context.home)
    if not count or place is None:
        return Check("gateway", True, "no session needs it")
    where = f"{place.address}:{place.port}"
    if gateway.refuses_strangers(place):
        return Check("gateway", True, f"{count} sessions reach the network through it, at {where}")
    return Check(
        "gateway",
        False,
        f"{count} sessions cannot reach the internet: no valid answer from {where}",
        "the next session that needs it starts it; `docker logs holdfast-gateway-…` says why it ended",
    )


def _pool(context: Context) -> Check:
    """Report the waiting sessions of the pool, and why there are not more."""
    settings, rows = pool_plan.read(context.home), context.store.waiting.all()
    running = context.running_containers()
    alive = sum(row.container_id in running for row in rows)
    memory = f", {sum(row.kernel for row in rows)} with a kernel" if settings.kernel else ""
    detail = f"{alive} of {settings.size} sessions wait{memory}"
    if trouble := pool_filler.trouble(context.home):
        return Check("pool", False, f"{detail}: {trouble}", "`holdfast pool set 0` ends the attempts")
    return Check("pool", True, detail)


def _leftovers(context: Context) -> Check:
    from holdfast.runtime.lifecycle import orphan_containers

    found = orphan_containers.unowned(context)
    if not found:
        return Check("leftovers", True, "failed operations left nothing behind")
    some = " ".join(container[:12] for container in found[:5])
    return Check(
        "leftovers", False, f"{len(found)} containers belong to no session", f"`docker rm -f {some}`"
    )


def _snapshots(context: Context, ready: bool) -> list[Check]:
    """Try out live snapshots; that takes seconds, and minutes if images have to be built first."""
    from holdfast.runtime.doctor import round_trip

    if not ready:
        return [Check("live capture", False, "not tried without the images", "`holdfast image build`")]
    return round_trip.checks(context)
