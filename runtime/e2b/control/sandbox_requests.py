"""Bodies of the control plane's requests, and the refusal of fields that sessions cannot honor.  Pure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.control.network_wishes import NetworkBody
from holdfast.runtime.e2b.e2b_errors import NotOffered
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.wire_bodies import WireBody

LONGEST_SECONDS = 10 * 366 * 86400
MOST_FORKS = 100
Text = Annotated[str, Field(max_length=65_536)]
Texts = Annotated[dict[Annotated[str, Field(max_length=256)], Text], Field(max_length=1000)]
Timeout = Annotated[int, Field(ge=0, le=LONGEST_SECONDS)]


class AutoResume(WireBody):
    """Whether a request resumes a sandbox that is paused."""

    enabled: bool = False


class NewSandbox(WireBody):
    """A sandbox to be made."""

    template_id: Annotated[str, Field(alias="templateID", max_length=200)]
    timeout: Timeout | None = None
    metadata: Texts | None = None
    env_vars: Texts | None = None
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: AutoResume | None = None
    # Some names of this wire are not in camel case.
    allow_internet_access: Annotated[StrictBool | None, Field(alias="allow_internet_access")] = None
    network: NetworkBody | None = None
    mcp: Any = None
    iam: Any = None
    volume_mounts: Any = None

    def check(self) -> None:
        """Refuse fields that sessions cannot honor.

        Raises:
            NotOffered, InvalidArgument: it has such a field.
        """
        if self.mcp:
            raise NotOffered(
                "cannot start MCP servers in a sandbox: its image has no gateway for them",
                hint="run them as processes of the sandbox",
            )
        if self.iam:
            raise NotOffered("cannot give a sandbox an identity: there is no provider of identities here")
        if self.volume_mounts:
            raise NotOffered(
                "cannot mount volumes: there are none",
                hint="write files into the sandbox, or fork one that has them",
            )
        if self.wakes and not self.auto_pause:
            raise InvalidArgument(
                "cannot resume a sandbox automatically that is killed at its end",
                hint="set autoPause as well",
            )

    @property
    def wakes(self) -> bool:
        """Whether a request resumes it when it is paused."""
        return self.auto_resume is not None and self.auto_resume.enabled

    def facts(self, default_seconds: float) -> SandboxFacts:
        """Return the facts to keep with the session; its end is set when it is made."""
        seconds = default_seconds if self.timeout is None else self.timeout
        return SandboxFacts(
            template=self.template_id,
            metadata=self.metadata or {},
            env=self.env_vars or {},
            at_end="pause" if self.auto_pause else "kill",
            keeps_memory=self.auto_pause_memory,
            auto_resume=self.wakes,
            public_ports=self.network is not None and self.network.allow_public_traffic is True,
            request_host=None if self.network is None else self.network.mask_request_host,
            seconds=seconds,
        )


class ConnectBody(WireBody):
    """A client that connects."""

    timeout: Timeout = 300
    memory: bool = True


class TimeoutBody(WireBody):
    """Another end."""

    timeout: Timeout


class RefreshBody(WireBody):
    """A later end."""

    duration: Timeout = 300


class PauseBody(WireBody):
    """A pause."""

    memory: bool = True
    # A pause here fails if the guest does not answer, whether that is asked for or not.
    require_healthy_guest: bool = False


class SnapshotBody(WireBody):
    """A snapshot to be taken."""

    name: Annotated[str, Field(max_length=200)] | None = None
    memory: bool = True


class ForkBody(WireBody):
    """Copies to be made. Without a timeout they live as long as what they are copies of."""

    timeout: Timeout | None = None
    count: Annotated[int, Field(ge=1, le=MOST_FORKS)] = 1
