"""Connecting the SDK to an engine: its listener, the trusted authorities, the version of the API.

Knows where engines are (`engine_place`); what is asked of them afterwards is `engine.py`'s. Importing this
module is cheap; the SDK is imported on connecting.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.engine.engine_faults import ELSEWHERE_HINT, PERMISSION_HINT, START_HINT, translated
from holdfast.engine.engine_place import EnginePlace
from holdfast.errors import EngineUnavailable

if TYPE_CHECKING:
    import docker

# The engine answers in milliseconds, except for a commit of gigabytes.
TIMEOUT_SECONDS = 900
ANSWER_SECONDS = 30
"""How long it may take over a question. An engine that hangs accepts connections, and says nothing."""


def connected(place: EnginePlace) -> docker.DockerClient:
    """Return a client of the engine at this place.

    Raises:
        EngineUnavailable: none answers.
    """
    _knock(place)
    import docker as sdk
    from docker.utils import kwargs_from_env

    with translated("reach Docker"):
        settings: dict[str, Any] = (
            {"base_url": place.url, "tls": _certificates(place)}
            if place.context
            else {**kwargs_from_env(environment={**os.environ, "DOCKER_HOST": place.url})}
        )
        direct = not place.path and not place.elsewhere
        if not settings.get("tls") and not direct:
            asking = sdk.DockerClient(**settings, timeout=ANSWER_SECONDS)  # it asks for the version
            asking.api.timeout = TIMEOUT_SECONDS
            return _audited(asking)
        version = _offered(settings, direct=direct)
        made = sdk.DockerClient(**settings, version=version, timeout=TIMEOUT_SECONDS)
        return _audited(_trusting(made, direct=direct))


def require_here(place: EnginePlace) -> None:
    """Refuse an engine on another machine, which would mount the home from its own disk.

    Raises:
        EngineUnavailable: it is on another machine.
    """
    if not place.elsewhere:
        return
    source = f"context {plain(place.context, 60)}" if place.context else "DOCKER_HOST"
    raise EngineUnavailable(
        f"cannot use the engine of {source} from here: it is on another machine", hint=ELSEWHERE_HINT
    )


def asked(client: docker.DockerClient, path: str, *places: str, **wanted: str) -> Any:
    """Return the engine's answer to GET of a path, with these words quoted into it.

    The SDK's own methods wait for all answers as long as for the slowest. Raises its errors.
    """
    api: Any = client.api
    answer = api._get(api._url(path, *places), params=wanted, timeout=ANSWER_SECONDS)
    return api._result(answer, True)


def _knock(place: EnginePlace) -> None:
    """Check whether anything listens, without the SDK, which leaks its socket on a refusal."""
    if not place.path:
        return
    with socket.socket(socket.AF_UNIX) as knocking:
        try:
            knocking.connect(place.path)
        except OSError as error:
            why = "permission denied" if isinstance(error, PermissionError) else "no Docker engine answers"
            hint = PERMISSION_HINT if isinstance(error, PermissionError) else START_HINT
            raise EngineUnavailable(
                f"cannot reach Docker: {why} on {place.path}{place.named}", hint=hint
            ) from error


def _offered(settings: dict[str, Any], *, direct: bool) -> str:
    """Return the newest version of the engine's API, which the SDK would request too early."""
    import docker as sdk
    from docker.constants import DEFAULT_DOCKER_API_VERSION

    asking = sdk.DockerClient(**settings, version=DEFAULT_DOCKER_API_VERSION, timeout=ANSWER_SECONDS)
    with closing(_trusting(asking, direct=direct)):
        return str(asking.api.version(api_version=False)["ApiVersion"])


def _trusting(client: docker.DockerClient, *, direct: bool) -> docker.DockerClient:
    """Let a client trust the authority it was given, even if REQUESTS_CA_BUNDLE names others.

    The environment's proxies lie on its way, unless that is `direct`: to this machine.
    """
    import requests.utils

    client.api.trust_env = False
    client.api.proxies = {} if direct else requests.utils.get_environ_proxies(client.api.base_url)
    return client


def _audited(client: docker.DockerClient) -> docker.DockerClient:
    """Make a client raise an audit event for each request, without its query, and for its answer."""
    api: Any = client.api
    send = api.send

    def audited(request: Any, **options: Any) -> Any:
        path = request.path_url.partition("?")[0]
        sys.audit("holdfast.asks", id(request), "engine", f"{request.method} {path}")
        try:
            return send(request, **options)
        finally:
            sys.audit("holdfast.answered", id(request))

    api.send = audited
    return client


def _certificates(place: EnginePlace) -> Any:
    """Return the TLS settings of a context in the SDK's form; None if it has none."""
    from docker.tls import TLSConfig

    if place.certificates is None:
        return None
    cert, key = place.certificates / "cert.pem", place.certificates / "key.pem"
    authority = place.certificates / "ca.pem"
    return TLSConfig(
        client_cert=(str(cert), str(key)) if cert.exists() and key.exists() else None,
        ca_cert=str(authority) if authority.exists() else None,
        verify=place.verified,
    )
