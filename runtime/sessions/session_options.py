"""The options of a session, and their translation into container settings.

Pure: defaults, validation and translation live here; facts about the engine and the host are passed in.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.base.quantities import parse_size
from holdfast.base.text import plain
from holdfast.engine import disk_limits
from holdfast.errors import InvalidArgument
from holdfast.runtime.gateway import session_rules
from holdfast.runtime.gateway.exchange import is_placeholder
from holdfast.runtime.gateway.names import Domain
from holdfast.runtime.gateway.session_rules import SecretHost
from holdfast.runtime.guest import layout
from holdfast.runtime.sessions import image_settings, network_exceptions, writable_places
from holdfast.runtime.sessions.network_exceptions import Allowed

T = TypeVar("T", bound=BaseModel)

MIB = 1 << 20
# The supervisor, a shell and a kernel need about 150 MiB; less than this would be killed at the start.
MEMORY_LEAST = 256 * MIB

# What package managers and servers need. Not NET_ADMIN: network rules are set from outside.
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
RESOLVER = "/etc/resolv.conf"
# Limits that would let a program raise its priority without a capability; engines may default to more.
NO_PRIORITY = ("nice", "rtprio")
IMAGE = r"[A-Za-z0-9][A-Za-z0-9_./:@-]{0,254}"
USER = r"([a-z_][a-z0-9_-]{0,31}|\d{1,10}(:\d{1,10})?)"
PATH = r"/[^\x00]{0,4095}"
FOLDER = r"/[^\x00]{1,299}"
SHELL = r"([a-z]{1,20}|/[!-~]{1,200})"
KERNEL = r"[A-Za-z0-9._-]{1,100}"
# Paths in the container that a mount would break.
RESERVED = ("/proc", "/sys", "/dev", str(layout.RUN_DIR), str(layout.STATE_DIR), "/opt/holdfast")


class Mount(BaseModel):
    """A file or folder of the host that is mounted into the session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    target: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Mount:
        """Parse SRC:DST or SRC:DST:ro.

        Raises:
            InvalidArgument: the text has another form.
        """
        parts = text.split(":")
        mode = parts.pop() if len(parts) == 3 and parts[2] in ("ro", "rw") else "rw"
        if len(parts) != 2 or not all(parts):
            raise InvalidArgument(
                f"cannot mount '{plain(text, 200)}': it is not SRC:DST or SRC:DST:ro",
                hint="for example --mount ./data:/data:ro",
            )
        source = str(Path(parts[0]).expanduser().absolute())
        return _validated(cls, {"source": source, "target": parts[1], "read_only": mode == "ro"}, "mount")

    def __str__(self) -> str:
        """Return the mount in the form that `parse` reads."""
        return f"{self.source}:{self.target}" + (":ro" if self.read_only else "")

    @field_validator("source")
    @classmethod
    def _source(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("the source must be an absolute path")
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: str) -> str:
        if not value.startswith("/") or ".." in value.split("/"):
            raise ValueError("the target must be an absolute path")
        target = "/" + "/".join(part for part in value.split("/") if part not in ("", "."))
        if target == "/" or any(f"{target}/".startswith(f"{place}/") for place in RESERVED):
            raise ValueError(f"the target {target} belongs to the session itself")
        return target


class SecretOption(BaseModel):
    """A secret as the session knows it: the variable that has its placeholder, and the hosts it is for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    hosts: tuple[str, ...]
    placeholder: str

    @model_validator(mode="after")
    def _form(self) -> SecretOption:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", self.name) or not is_placeholder(
            self.placeholder
        ):
            raise ValueError("has an invalid name or placeholder")
        for host in self.hosts:
            SecretHost.parse(host)
        return self


class SessionOptions(BaseModel):
    """All options of a new session; the defaults are safe.

    network is its reach: `internet` (nothing else), `none`, or `open` (also the networks around the host);
    `default`, of earlier versions, means `internet`. With `domains` it reaches those names and nothing
    else, through the gateway. allow lists exceptions, HOST:PORT. deny lists closed addresses and networks;
    an address or network in allow without a port is exempt from them. secrets are variables with
    placeholders; the gateway puts the values into requests to their hosts.

    kernel is the Jupyter kernel that cells run in, by the name of its spec in the image: Python's by default.
    python is the interpreter of Python kernels, a path in the session.

    memory and disk are in bytes (or text such as `512m`), cpus counts cores, pids counts processes and
    threads. disk limits the session's own files; with None the engine's limit applies, if it has one.

    read_only forbids writing to the files of the image: only the workspace, /tmp, /var/tmp and /run,
    mounts, and the folders of writable can be written to. They are in snapshots as ever.

    shell is the program of the session's shells: `bash`, `zsh` or `fish` of the image, the path of one, or
    `holdfast`, our own bash; with None the image's bash, and ours if it has none that can be driven.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: Annotated[str, Field(pattern=f"^{IMAGE}$")] | None = None
    network: Literal["internet", "none", "open", "domains"] = "internet"
    allow: Annotated[tuple[str, ...], Field(max_length=network_exceptions.MOST)] = ()
    deny: Annotated[tuple[str, ...], Field(max_length=network_exceptions.MOST)] = ()
    domains: Annotated[tuple[str, ...], Field(max_length=200)] = ()
    secrets: Annotated[tuple[SecretOption, ...], Field(max_length=50)] = ()
    memory: Annotated[int, Field(ge=MEMORY_LEAST)] = 4 << 30
    disk: Annotated[int, Field(ge=disk_limits.LEAST)] | None = None
    cpus: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    pids: Annotated[int, Field(ge=64, le=4_194_304)] = 4096
    user: Annotated[str, Field(pattern=f"^{USER}$")] | None = None
    env: dict[str, str] = {}
    mounts: Annotated[tuple[Mount, ...], Field(max_length=100)] = ()
    workdir: Annotated[str, Field(pattern=f"^{PATH}$")] | None = None
    read_only: bool = False
    writable: Annotated[
        tuple[Annotated[str, Field(pattern=f"^{FOLDER}$")], ...], Field(max_length=writable_places.MOST)
    ] = ()
    shell: Annotated[str, Field(pattern=f"^{SHELL}$")] | None = None
    kernel: Annotated[str, Field(pattern=f"^{KERNEL}$")] | None = None
    python: Annotated[str, Field(pattern=f"^{PATH}$")] | None = None

    @classmethod
    def parse(cls, **chosen: Any) -> SessionOptions:
        """Validate options.

        Raises:
            InvalidArgument: names the option and its fault, in one line.
        """
        if unknown := sorted(set(chosen) - set(cls.model_fields)):
            raise InvalidArgument(
                f"cannot create session: unknown option '{plain(unknown[0], 60)}'",
                hint=f"there are {', '.join(cls.model_fields)}",
            )
        values = {key: value for key, value in chosen.items() if value is not None}
        if isinstance(env := values.get("env"), (list, tuple)):
            values["env"] = dict(_assignment(text) for text in env)
        if "mounts" in values:
            values["mounts"] = [Mount.parse(m) if isinstance(m, str) else m for m in values["mounts"]]
        return _validated(cls, values, "create session")

    @field_validator("network", mode="before")
    @classmethod
    def _network(cls, value: Any) -> Any:
        return "internet" if value == "default" else value

    @field_validator("allow", mode="before")
    @classmethod
    def _allow(cls, value: Any) -> Any:
        return tuple(str(Allowed.parse(item)) for item in _listed(value))

    @field_validator("deny", mode="before")
    @classmethod
    def _deny(cls, value: Any) -> Any:
        return network_exceptions.denied_texts(_listed(value))

    @field_validator("domains", mode="before")
    @classmethod
    def _domains(cls, value: Any) -> Any:
        found = []
        for item in _listed(value):
            try:
                found.append(str(Domain.parse(item)))
            except ValueError as error:
                raise ValueError(f"cannot have '{plain(item, 100)}': {error}") from error
        return tuple(dict.fromkeys(found))

    @property
    def root(self) -> dict[str, list[str]] | None:
        """The checkpointer's instructions for the root; None if it stays writable."""
        mounted = (mount.target for mount in self.mounts)
        return writable_places.request(self.writable, mounted) if self.read_only else None

    @property
    def by_gateway(self) -> bool:
        """True if the session's outgoing calls go through the gateway."""
        return self.network == "domains" or bool(self.secrets)

    @model_validator(mode="after")
    def _gateway(self) -> SessionOptions:
        if self.domains and self.network != "domains":
            raise ValueError("domains are only for sessions with filtered names: add --network domains")
        if self.secrets and self.network == "none":
            raise ValueError("a session without a network cannot use secrets")
        names = [one.name for one in self.secrets]
        twice = next((name for name in names if names.count(name) > 1 or name in self.env), None)
        if twice is not None:
            raise ValueError(f"{twice} cannot be set twice")
        return self

    @model_validator(mode="after")
    def _something_to_allow(self) -> SessionOptions:
        if self.allow and self.network == "none":
            raise ValueError("a session without a network cannot have network exceptions")
        return self

    @field_validator("memory", "disk", mode="before")
    @classmethod
    def _size(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if (size := parse_size(value)) is None:
            raise ValueError("must be a number of bytes, or a size such as 512m or 4g")
        return size

    @field_validator("user", mode="before")
    @classmethod
    def _user(cls, value: Any) -> Any:
        if _differs(value, USER):
            raise ValueError("must be a user name, a number, or UID:GID")
        return value

    @field_validator("env")
    @classmethod
    def _env(cls, value: dict[str, str]) -> dict[str, str]:
        for key, text in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) or "\0" in text:
                raise ValueError(f"'{plain(key, 60)}' is not the name of a variable")
        return value

    @field_validator("workdir", "python", mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        if _differs(value, PATH):
            raise ValueError("must be an absolute path in the session")
        if isinstance(value, str) and f"{posixpath.normpath(value)}/".lstrip("/").startswith("proc/"):
            raise ValueError("must not be below /proc: engines have found folders of the host there")
        return value

    @field_validator("writable", mode="before")
    @classmethod
    def _places(cls, value: Any) -> Any:
        return tuple(dict.fromkeys(writable_places.plain(each) for each in _listed(value)))

    @model_validator(mode="after")
    def _something_to_except(self) -> SessionOptions:
        if self.writable and not self.read_only:
            raise ValueError("only sessions with a read-only root have writable folders: add --read-only")
        return self

    @field_validator("shell", mode="before")
    @classmethod
    def _shell(cls, value: Any) -> Any:
        if _differs(value, SHELL):
            raise ValueError("must be the name of a shell, or the absolute path of one in the session")
        return value

    @field_validator("kernel", mode="before")
    @classmethod
    def _spec(cls, value: Any) -> Any:
        if _differs(value, KERNEL):
            raise ValueError("is not the name of a kernel spec: letters, digits, `.`, `-` and `_`")
        return value

    @model_validator(mode="after")
    def _one_language(self) -> SessionOptions:
        if self.python is not None and self.kernel not in (None, layout.DEFAULT_SPEC):
            raise ValueError("python is for the Python kernel: leave it or the kernel out")
        return self

    @field_validator("image", mode="before")
    @classmethod
    def _image(cls, value: Any) -> Any:
        if _differs(value, IMAGE):
            raise ValueError("is not the name of an image")
        return value


def container_options(
    options: SessionOptions,
    *,
    name: str,
    hostname: str,
    image: str,
    command: Iterable[str],
    labels: Mapping[str, str],
    run_dir: Path,
    init: Path,
    first: str,
    seccomp: Mapping[str, Any],
    network: str,
    mptcp: bool,
    ipv6: bool = False,
    resolver: Path | None = None,
    disk: int | None = None,
    trust: Path | None = None,
    names: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the arguments of the SDK's `containers.create` for a session.

    Args:
        init, first: the program of its first process, and its path in the container (`init_program`).
        network: the name of the sessions' bridge.
        mptcp: True if the host's kernel has multipath TCP. Its sockets cannot be checkpointed, so it is
            switched off.
        ipv6: True if the host's kernel has IPv6. `localhost` is then ::1 also, which engines switch off.
        resolver: the file that becomes its resolv.conf, instead of the engine's, whose resolver knows the
            names of other containers.
        disk: the bytes to which the engine limits its files, if it can.
        trust: the folder with the certificates that a session with secrets trusts.
        names: files that are mounted over the engine's own, unless the options mount others (`name_files`).
    """
    sysctls = {"net.mptcp.enabled": "0"} if mptcp else {}
    if ipv6:
        sysctls["net.ipv6.conf.lo.disable_ipv6"] = "0"
    made: dict[str, Any] = {
        "image": image,
        "name": name,
        "hostname": hostname,
        "entrypoint": [first],
        "command": list(command),
        "labels": dict(labels),
        "user": "0:0",
        "environment": {**_gateway_environment(options, trust is not None), **options.env},
        # Not the session's folder: what has its name in an image, or in a copy, may be a link or a file.
        "working_dir": "/",
        "tty": False,
        "stdin_open": False,
        "init": False,
        "cap_drop": ["ALL"],
        "cap_add": list(CAPABILITIES),
        "security_opt": [f"seccomp={json.dumps(seccomp, separators=(',', ':'))}"],
        "sysctls": sysctls,
        "pids_limit": options.pids,
        "mem_limit": options.memory,
        "memswap_limit": options.memory,
        # Shared memory counts as memory anyway; browsers and databases need more than Docker's 64 MiB.
        "shm_size": options.memory // 4,
        "mounts": [
            _bind(str(run_dir), str(layout.RUN_DIR), read_only=False),
            _bind(str(init), first, read_only=True),
        ]
        + [_bind(m.source, m.target, read_only=m.read_only) for m in options.mounts],
        "healthcheck": image_settings.NO_HEALTH_CHECK,
        "stop_signal": image_settings.STOP_SIGNAL,
        "ulimits": [{"Name": name, "Soft": 0, "Hard": 0} for name in NO_PRIORITY],
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    }
    if trust is not None:
        made["mounts"].append(_bind(str(trust), session_rules.TRUST, read_only=True))
    if disk is not None:
        made["storage_opt"] = {"size": str(disk)}
    if options.cpus is not None:
        made["nano_cpus"] = int(options.cpus * 1_000_000_000)
    if options.network == "none":
        made["network_mode"] = "none"
    else:
        made["network"] = network
    own = {mount.target for mount in options.mounts}
    if resolver is not None and RESOLVER not in own:
        made["mounts"].append(_bind(str(resolver), RESOLVER, read_only=True))
    made["mounts"] += [
        _bind(str(file), place, read_only=False) for place, file in names.items() if place not in own
    ]
    return made


def places(options: SessionOptions, first: str) -> dict[str, list[str]]:
    """Return the mount points in a session's container, `first` being its first program."""
    trust = [session_rules.TRUST] if options.secrets else []
    return {
        "own": [first, str(layout.RUN_DIR), *trust],
        "given": [*writable_places.ENGINE_FILES, *(mount.target for mount in options.mounts)],
    }


def _gateway_environment(options: SessionOptions, trust: bool) -> dict[str, str]:
    """Return the variables that make programs use the gateway."""
    if not options.by_gateway:
        return {}
    found = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), session_rules.PROXY)
    found |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
    if trust:
        found |= dict.fromkeys(session_rules.TRUST_VARIABLES, session_rules.ROOTS)
    return found | {one.name: one.placeholder for one in options.secrets}


def _bind(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


def _listed(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError("must be a list of texts")
    return [str(each) for each in value]


def _differs(value: Any, pattern: str) -> bool:
    """Return whether a text lacks a form; values of other types are refused by the type, later."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is None


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument(
            f"cannot set variable '{plain(text, 60)}': it is not KEY=VALUE", hint="for example --env DEBUG=1"
        )
    return key, value


def _validated(model: type[T], values: Mapping[str, Any], what: str) -> T:
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        raise InvalidArgument(
            f"cannot {what}: {plain(where, 60)} {plain(why, 200)}".replace("  ", " ")
        ) from error
