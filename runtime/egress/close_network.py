"""Closes the network of a container that has just started, and releases its first process.

Nothing runs in the container before this is done: its first process waits. If it cannot be done, nothing
ever runs. A container without a network does not need rules, nor a checkpointer, unless its root is to be
read-only: the same request does that, since it also has to be done before anything runs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import polling, private_files
from holdfast.base.text import plain
from holdfast.errors import (
    EngineError,
    HoldfastError,
    ImageError,
    InvalidArgument,
    NetworkNotClosed,
    SessionError,
    StoreError,
)
from holdfast.runtime.egress import home_network, host_network
from holdfast.runtime.sessions import init_program, name_files, network_exceptions, session_options
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.snapshots.checkpointer.egress import netrules
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules
from holdfast.snapshots.checkpointer.ground.tree import waits_unconfined
from holdfast.snapshots.link import CheckpointerFailed, LinkLost

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.container_state import ContainerState
    from holdfast.engine.engine import Engine
    from holdfast.runtime.sessions.session_options import SessionOptions
    from holdfast.snapshots.checkpointer.egress.netrules import Opening

RESOLVERS = "resolvers"
"""Folder of the home with the files that sessions find at /etc/resolv.conf, one for each content."""
_WAIT_SECONDS = 20.0
_NAMES_SECONDS = 10.0
"""The time for looking up all the names that a session is to reach."""
_POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class ClosedNetwork:
    """The rules of a container, None without a network, and the container as it was when they were set."""

    state: ContainerState
    rules: NetworkRules | None


@dataclass(frozen=True, slots=True)
class Closing:
    """The closing of networks for the sessions of one home, on one engine."""

    engine: Engine
    home: Home
    progress: Callable[[str], None]

    @contextmanager
    def ahead(self, options: SessionOptions) -> Iterator[None]:
        """Start the checkpointer, if need be, while the block makes a container.

        A failure to start it is not reported here, but when it is needed.
        """
        if options.network == "none" and not options.read_only:
            yield
            return
        with ThreadPoolExecutor(1, thread_name_prefix="network") as pool:
            pool.submit(self._ready, options.by_gateway)
            yield

    def close(self, options: SessionOptions, container_id: str) -> ClosedNetwork:
        """Close the network of a started container, and release its first process.

        If its options say so, its root becomes read-only before.

        Raises:
            NetworkNotClosed, SessionError: it cannot be done; nothing runs in the container.
            ImageError: its image has links or files where something is mounted.
            StoreError: its addresses cannot be written into its files.
            EngineError, ImageError, StoreError: the request to the checkpointer failed.
        """
        state = self._running(container_id)
        root = options.root
        self._add_addresses(state)
        places = session_options.places(options, state.program)
        if options.network == "none":
            # If it is out of sight, this process is in a container itself.
            if root is not None or not Path(f"/proc/{state.pid}").exists():
                self._ask(state, NetworkRules(), load=True, release=True, root=root, places=places)
            else:
                self._let_go(state, places)
            return ClosedNetwork(state, None)
        rules = self._rules(options, state)
        self._ask(state, rules, load=True, release=True, root=root, places=places)
        return ClosedNetwork(state, rules)

    def hold(self, options: SessionOptions, container_id: str, what: str) -> None:
        """Close the network of a started container whose first process waits on, for others in it.

        It can send packets past the rules, so its links have rules too. Incoming connections are refused.

        Raises:
            NetworkNotClosed: "cannot <what>: …"; also if the kernel has no rules for links.
            EngineError, ImageError, StoreError: the request to the checkpointer failed.
        """
        state = self._running(container_id)
        rules = replace(self._rules(options, state), callers=())
        self._ask(state, rules, load=True, release=False, what=what, links=True)

    def renew(self, options: SessionOptions, container_id: str) -> None:
        """Register a session with the gateway again, by its present address. Raises what `close` raises."""
        if options.by_gateway:
            self._rules(options, self._running(container_id))

    def say_addresses(self, container_id: str, but: Collection[str] = ()) -> None:
        """Write a container's addresses into its /etc/hosts; not its earlier ones.

        Raises:
            NetworkNotClosed, StoreError, EngineError: it does not run, or they cannot be written.
        """
        self._add_addresses(self._running(container_id), but)

    def check(self, closed: ClosedNetwork) -> None:
        """Check that the rules are in force. Raises the same errors as `close`."""
        if closed.rules is not None:
            self._ask(closed.state, closed.rules, load=False, release=False)

    def change(self, options: SessionOptions, state: ContainerState) -> list[dict[str, object]]:
        """Replace the rules of a running container; return the refusals of the old ones (`attempts`).

        Raises:
            NetworkNotClosed: it cannot be done, or not be verified.
        """
        what = "change the network of the session"
        rules = self._rules(options, state)
        done = self._ask(state, rules, load=True, release=False, what=what)
        refused: list[dict[str, object]] = done["refused"]
        return refused

    def check_names(self, options: SessionOptions) -> None:
        """Check that names to be opened have addresses, and that places without a port can be reached.

        Raises:
            InvalidArgument: one has none, or is private.
        """
        items = [Allowed.parse(text) for text in options.allow]
        lookup = host_network.lookup_of((item.host for item in items if item.is_name), _NAMES_SECONDS)
        _, unknown = network_exceptions.openings(items, lookup)
        if unknown:
            raise InvalidArgument(
                f"cannot allow {unknown[0]}: no address is known for that name",
                hint="check its spelling",
            )
        if options.network == "open":
            return
        machine = host_network.look()
        for item in items:
            if item.undenied is not None and host_network.closed(item.host, machine):
                raise InvalidArgument(
                    f"cannot allow {item}: it is not on the internet, and lacks a port",
                    hint=f"a private place is opened with one: --allow {item}:443",
                )

    def _add_addresses(self, state: ContainerState, but: Collection[str] = ()) -> None:
        hosts = Path(state.sources.get(name_files.HOSTS, "/"))
        if self.home.run in hosts.parents:  # or the user mounted another file
            if not hosts.exists():  # the folder was made beside that of a session that was rewound since
                hosts = self.home.run_dir(state.labels["holdfast.session"]).parent / hosts.name
            name_files.add(hosts, state.hostname, [one for one in state.addresses if one not in but])

    def _wishes(self, options: SessionOptions) -> host_network.Wishes:
        known = home_network.read(self.home).every
        own = [item for item in map(Allowed.parse, options.allow) if item.is_name]
        names = [item.host for item in (*own, *known) if item.is_name]
        lookup = host_network.lookup_of(names, _NAMES_SECONDS if options.allow else home_network.GLANCE)
        found = host_network.Wishes.of(options.allow, options.deny, known, lookup)
        for name in found.unknown:
            self.progress(f"network: no address is known for {name}; it stays closed")
        for item in own:
            for one in item.openings(lookup) if options.deny else ():
                if found.is_denied(one.network):
                    address = Allowed(str(one.network.network_address), item.port)
                    self.progress(f"network: {item} is at {address}, which is denied; it stays closed")
        return found

    def _rules(self, options: SessionOptions, state: ContainerState) -> NetworkRules:
        """Return the rules of a session whose container runs, and write its policy for the gateway."""
        machine = host_network.look()
        wishes = self._wishes(options)
        for one in host_network.denied_resolvers(machine, wishes) if options.network != "domains" else ():
            self.progress(
                f"network: the resolver {one} is denied, so that names stay unknown; "
                f"--allow {Allowed(str(one), host_network.DNS)} opens it"
            )
        rules = host_network.rules(options.network, machine, _bridge(state), wishes)
        return replace(rules, gateway=self._gateway(options, state, machine, wishes))

    def _gateway(
        self,
        options: SessionOptions,
        state: ContainerState,
        machine: host_network.HostNetwork,
        wishes: host_network.Wishes,
    ) -> Opening | None:
        """Return the gateway's address if this session uses it; remove a policy left by another session."""
        if not options.by_gateway:
            if self.home.has_gateway:
                from holdfast.runtime.egress import session_policy

                session_policy.clear(self.home, state.addresses)
            return None
        from holdfast.runtime.egress import session_policy

        # On its own, a session of domains reaches nothing; through the gateway, only the internet.
        kind = "internet" if options.network == "domains" else options.network
        rules = host_network.rules(kind, machine, _bridge(state), wishes)
        caller = session_policy.Caller(state.labels["holdfast.session"], state.addresses, state.gateways)
        place = session_policy.begin(self.engine, self.home, self.progress, options, caller, rules)
        return netrules.Opening(ip_network(place.address), place.port)

    def _ready(self, by_gateway: bool) -> None:
        from holdfast.snapshots import service

        with suppress(HoldfastError, CheckpointerFailed):
            if by_gateway:  # its image takes a minute, the first time
                from holdfast.images import build

                build.ensure(self.engine.images, "gateway", self.progress)
            service.start_early(self.engine, self.home, self.progress)

    def _running(self, container_id: str) -> ContainerState:
        state = self.engine.inspect(container_id)
        if state is None or not state.running:
            raise NetworkNotClosed("cannot start session: its container ended immediately")
        return state

    def _ask(
        self,
        state: ContainerState,
        rules: NetworkRules,
        *,
        load: bool,
        release: bool,
        what: str = "start session",
        root: dict[str, list[str]] | None = None,
        links: bool = False,
        places: dict[str, list[str]] | None = None,
    ) -> dict[str, Any]:
        from holdfast.snapshots import service

        asked = {
            "container": state.id,
            "init_pid": state.pid,
            "rules": rules.as_dict(),
            "root": root,
            "places": places,
        }
        asked |= {"links": True} if links else {}
        try:
            with service.ask(
                self.engine, self.home, self.progress, "confine", load=load, release=release, **asked
            ) as link:
                return link.until("done")
        except CheckpointerFailed as refusal:
            if refusal.kind == "root":
                raise SessionError(
                    f"cannot {what}: {plain(str(refusal), 400)}",
                    hint="--writable takes folders, not links; without --read-only its root is writable",
                ) from refusal
            if refusal.kind == "places":
                raise _astray(str(refusal)) from refusal
            raise _not_closed(what, str(refusal)) from refusal
        except (LinkLost, EngineError) as error:
            raise _not_closed(what, f"the checkpointer is not running ({error})") from error
        except HoldfastError as error:
            raise _not_closed(what, str(error), error.hint) from error

    def _let_go(self, state: ContainerState, places: dict[str, list[str]]) -> None:
        """Release it without the checkpointer: the engine sends the signal, once the process waits for it.

        The program and the mounts are checked where this user has the right to. That the program is ours
        does not depend on that: nothing but our file has the name that the engine starts, and nothing in
        the container runs before. Nor is anything gained by a different program: it has the rights of every
        process there, no network either, and every privileged step checks again (`first_process`).
        """
        if not polling.until(lambda: waits_unconfined(state.pid), _WAIT_SECONDS, _POLL_SECONDS):
            raise NetworkNotClosed("cannot start session: its first process does not wait to be released")
        if init_program.is_another(self.home, state.pid):
            raise NetworkNotClosed("cannot start session: its first process is not Holdfast's own")
        from holdfast.snapshots.checkpointer.container import first_process
        from holdfast.snapshots.checkpointer.wire.requests import MountedPlaces

        try:
            wanted = MountedPlaces(tuple(places["own"]), tuple(places["given"]))
            with suppress(OSError):  # as a rule only root may look
                first_process.require_mounted(state.pid, wanted)
        except first_process.Astray as error:
            raise _astray(str(error)) from error
        self.engine.signal(state.id, signal.SIGUSR1)


def resolver_file(home: Home) -> Path:
    """Return the file that a session gets as its resolv.conf.

    Raises:
        StoreError: it cannot be written.
    """
    from hashlib import sha256

    text = host_network.resolver_file()
    path = home.root / RESOLVERS / f"{sha256(text.encode()).hexdigest()[:12]}.conf"
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(path, text, durable=False, mode=0o644)  # programs of any user read it
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _bridge(state: ContainerState) -> host_network.Bridge:
    subnets = tuple(ip_interface(text).network for text in state.subnets)
    return host_network.Bridge(subnets, tuple(ip_interface(text).ip for text in state.gateways))


def _astray(why: str) -> ImageError:
    return ImageError(
        f"cannot start session: {plain(why, 400)}",
        hint="its image has a link or a file in that place, or above it; make the image without",
    )


def _not_closed(what: str, why: str, hint: str = "") -> NetworkNotClosed:
    return NetworkNotClosed(
        f"cannot {what}: its network cannot be closed: {why}",
        hint=hint
        or "`holdfast doctor` reports what is missing; a session with `--network none` does not need it",
    )
