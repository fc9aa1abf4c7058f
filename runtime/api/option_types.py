"""The names and types of options, for type checkers and editors that complete them; checked elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from holdfast.runtime.sessions.session_options import Mount


class NewOptions(TypedDict, total=False):
    """The options of a new session; None is the default. `SessionOptions` explains them."""

    image: str | None
    network: Literal["internet", "none", "open", "domains"] | str | None
    allow: Sequence[str] | None
    deny: Sequence[str] | None
    domains: Sequence[str] | None
    secrets: Sequence[str] | None
    memory: int | str | None
    disk: int | str | None
    cpus: float | None
    pids: int | None
    user: str | None
    env: Mapping[str, str] | Sequence[str] | None
    mounts: Sequence[str | Mount] | None
    workdir: str | None
    read_only: bool | None
    writable: Sequence[str] | None
    shell: str | None
    kernel: str | None
    python: str | None


class LifetimeOptions(TypedDict, total=False):
    """When a session ends and sleeps; durations can be texts. `Lifetime` explains them."""

    life: float | str | None
    then: Literal["suspend", "remove"] | str | None
    idle: float | str | None


class PolicyOptions(TypedDict, total=False):
    """The fields of a policy; durations and sizes can be texts. `Policy` explains them."""

    every: int | None
    before_risky: bool | None
    risky: Sequence[str] | None
    on_failure: bool | None
    idle: float | str | None
    kind: Literal["live", "filesystem"] | str | None
    keep: int | None
    keep_for: float | str | None
    hourly: int | None
    daily: int | None
    quota: int | str | None
    durable: float | str | None
