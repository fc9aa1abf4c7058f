"""All doors of one server behind its gate: the first door that accepts a request handles it, the last is our
own API."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.base import serving_record
from holdfast.base.home import Home
from holdfast.runtime.access import shared_links
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.cli.transfer_verbs import PASSPHRASE
from holdfast.runtime.e2b import e2b_app
from holdfast.runtime.e2b.port_traffic import PortTraffic
from holdfast.runtime.e2b.sandbox_access import PortDoor, SandboxDoor, SandboxTokens, said_by_name
from holdfast.runtime.http_doors import door_setup
from holdfast.runtime.http_doors.admission import Admission, App
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.journal import host_events
from holdfast.runtime.jupyter import jupyter_app
from holdfast.runtime.jupyter.jupyter_app import JupyterDoor
from holdfast.runtime.operations.context import Progress
from holdfast.runtime.page.page_door import PageDoor
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.agent_rules import AgentRules
from holdfast.runtime.serve.api_server import Beside
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.lifetime_task import LifetimeTask
from holdfast.runtime.serve.metrics_task import MetricsTask
from holdfast.runtime.serve.notice_task import NoticeTask
from holdfast.runtime.serve.pool_task import PoolTask
from holdfast.runtime.serve.preview_visits import PreviewVisits
from holdfast.runtime.serve.request_gate import RequestGate, ServedDoor
from holdfast.runtime.swerex import swerex_app
from holdfast.runtime.swerex.swerex_app import RuntimeDoor
from holdfast.snapshots.bundle.keys import Keys

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from holdfast.runtime.sign_in.issuer_settings import SignInSettings
    from holdfast.runtime.sign_in.people_homes import PeopleHome, PeopleHomes


class ServedDoors:
    """The doors of a server with this token.

    Args:
        home: whose sessions are served.
        token: the server's own one.
        hosts, origins: as an `Admission` takes them.
        rate: requests a second in the long run; 0 is any number.
        previews: the address below which ports have their names, if `serve --preview-url` gave one.
        actor: who acts for agents; None for the names by which they introduce themselves.
        progress: receives a line for each step of something slow.
        audit: write a row for each request to the audit trail of the home.
        sign_in: the issuers and the proxy by which people sign in, if there are any.
        secret: of a team: its tokens of sandboxes, links and pages are made from it, in place of the
            token. People sign in at the doors of the server's own home.
        notices_to: networks to which notices can be sent besides public addresses.
    """

    def __init__(
        self,
        home: Home,
        token: str,
        progress: Progress,
        *,
        hosts: Iterable[str] | None = (),
        origins: Iterable[str] = (),
        rate: float = 0,
        previews: str = "",
        actor: str | None = None,
        audit: bool = False,
        sign_in: SignInSettings | None = None,
        secret: str = "",
        notices_to: Iterable[str] = (),
    ) -> None:
        is_of_team, secret = bool(secret), secret or token
        self.callers = callers = Callers(home, progress)
        if sign_in is not None and sign_in.url:
            hosts = None if hosts is None else [*hosts, urlsplit(sign_in.url).hostname or ""]
            origins = [*origins, sign_in.url]
        if audit:
            signer, _ = Keys(home).sending(passphrase=os.environ.get(PASSPHRASE))
            callers.trail = AuditTrail(home.root, signer)
        rules, limit = Admission(token, hosts, origins, callers.keys), RequestRate(rate, max(1, rate * 2))
        self.rules = rules
        lives, tokens, ids = LifetimeTask(callers), SandboxTokens(secret), e2b_app.session_ids(callers)
        self.pages = keys = PageKeys(secret)
        callers.signature = lambda key: tokens.of(key).signature
        traffic = PortTraffic(callers, tokens, rules)
        visits = PreviewVisits(
            callers, serving_record.stamp_of(secret), traffic, secure=previews.startswith("https:")
        )
        doors: list[ServedDoor] = [
            # First: what is sent to the name of a port must reach nothing else.
            PortDoor(rules, traffic, callers, tokens, ids, visits),
            JupyterDoor(rules, jupyter_app.gateway(callers)),
            # Before the other wire, which takes any request with its header for an API key.
            RuntimeDoor(rules, swerex_app.wire(callers)),
            SandboxDoor(rules, e2b_app.wire(callers, tokens, lives, ids), tokens, ids),
            PageDoor(rules, keys, visited=partial(_visited, callers)),
            server_app.api_door(callers, rules, lambda key: keys.visitor(key, time.time())),
        ]
        self.sign_in: PeopleHomes | None = None
        """The homes that people sign in to, if this server lets them."""
        if sign_in is not None and not is_of_team:
            from holdfast.runtime.sign_in.people_homes import PeopleHomes
            from holdfast.runtime.sign_in.sign_in_door import SignInDoor

            self.sign_in = PeopleHomes(self.people())
            doors.insert(-2, SignInDoor(rules, sign_in, self.sign_in))
        self.beside: Beside = [
            lives.running,
            MetricsTask(callers).running,
            PoolTask(callers).running,
            NoticeTask(callers, notices_to).running,
        ]
        """The companions of the server, which live as long."""
        if door_setup.installed("mcp"):
            from holdfast.runtime.serve.agents_door import AgentsDoor

            def made() -> Starlette:
                from holdfast.runtime.mcp.http_door import agent_app

                return agent_app(home, actor, progress, AgentRules(callers))

            agents = AgentsDoor(made, callers, rules)
            doors.insert(1, agents)
            self.beside.append(agents.running)
        self.app: App = RequestGate(
            doors,
            limit,
            callers.metrics,
            callers.trail,
            said_by_name(rules),
            callers.away,
        )

    def people(self, team: str = "") -> PeopleHome:
        """Return this home as one that people sign in to."""
        from holdfast.runtime.access.name_owners import NameOwners
        from holdfast.runtime.sign_in.people_homes import PeopleHome

        callers = self.callers
        return PeopleHome(team, callers.keys, NameOwners(callers.home.root), self.pages, callers.trail)


async def _visited(callers: Callers, link: AccessKey, actor: str) -> None:
    """Write in the session's journal that a link has opened its page."""
    may = shared_links.may(link)

    def write() -> None:
        context = callers.controller(actor).context
        host_events.note(context, link.session, "visited", link=link.name, may=may)

    await callers.brief.run(write)
