"""Verbs of the machine: doctor, image build, image ls; and the image that a new session has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import context_of, controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.guest_rpc.results import Check

_NAMES = 22
"""Columns for the name of a check; only a few names are longer."""


@examples("doctor", "doctor --security")
def doctor(
    ci: bool = option(
        "--ci", help="Check what a CI runner must allow. Exit code 3: only file snapshots work."
    ),
    security: bool = option(
        "--security", help="Show how sessions are isolated from this host, and how to improve that."
    ),
    json: bool = JSON,
) -> None:
    """Check everything that Holdfast needs. Exit code 1 if a requirement is missing."""
    if security:
        _security(as_json=wants_json(json))
        return
    if ci:
        from holdfast.runtime.ci import ci_host

        found = ci_host.checks(context_of(controller(), "doctor --ci"))
        _show(found, as_json=wants_json(json))
        raise Exit(ci_host.exit_code(found))
    from holdfast.runtime.doctor.doctor import each

    found = _shown(each(context_of(controller(), "doctor")), as_json=wants_json(json))
    if not all(check.ok for check in found):
        raise Exit(1)


def _security(*, as_json: bool) -> None:
    """Print the posture. Exit code 1 if a promise of Holdfast does not hold."""
    from holdfast.runtime.doctor import posture

    found = posture.judge(posture.read(context_of(controller(), "doctor --security")))
    if as_json:
        printing.emit([as_table(line) for line in found])
    else:
        printing.table(
            ("", "WHAT", "STATE", "WHY IT MATTERS"), ((f.level, f.name, f.state, f.why) for f in found)
        )
        for line in found:
            if line.improve:
                printing.note(f"{line.name}: {line.improve}")
    if any(line.level == "weak" for line in found):
        raise Exit(1)


def _shown(checks: Iterator[Check], *, as_json: bool) -> list[Check]:
    """Run the checks; show each as it ends, and the remedies at the end. JSON is one list."""
    if as_json:
        found = list(checks)
        _show(found, as_json=True)
        return found
    found = []
    for check in checks:
        found.append(check)
        printing.say(f"{'ok' if check.ok else 'NO'}  {check.name.ljust(_NAMES)}  {check.detail}")
        sys.stdout.flush()
    _say_hints(found)
    return found


def _say_hints(found: Sequence[Check]) -> None:
    for check in found:
        if not check.ok and check.hint:
            printing.note(f"{check.name}: {check.hint}")


def _show(found: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        printing.emit([as_table(check) for check in found])
    else:
        printing.table(("", "CHECK", "FOUND"), (("ok" if c.ok else "NO", c.name, c.detail) for c in found))
        _say_hints(found)


@examples("image build", "image build data")
def build(
    kind: list[str] | None = argument(
        "KIND",
        default=None,
        help=("Images to build, such as `data`, `gateway` or `controller` (default: `session`, `toolbox`)."),
    ),
    json: bool = JSON,
) -> None:
    """Build missing images."""
    from holdfast.images import build as images
    from holdfast.runtime.egress import home_network

    holdfast = controller()
    known = holdfast.engine.images
    made = [(each, images.ensure(known, each, printing.note)) for each in kind or images.ALWAYS]
    for place in home_network.refresh(holdfast.home).found:
        printing.note(f"network: packages come from {place}, which is opened for sessions")
    if wants_json(json):
        printing.emit([{"id": tag, "name": tag, "kind": each} for each, tag in made])
    else:
        for _, tag in made:
            printing.say(tag)


@examples("image ls")
def ls(json: bool = JSON) -> None:
    """List images."""
    from holdfast.images import build as images

    found = images.list_images(controller().engine.images)
    if wants_json(json):
        printing.emit(
            [
                {
                    "id": image.tag,
                    "name": image.tag,
                    "kind": image.kind,
                    "bytes": image.size,
                    "created_at": image.created.isoformat(),
                    "current": image.current,
                }
                for image in found
            ]
        )
        return
    now = datetime.now(UTC)
    printing.table(
        ("IMAGE", "SIZE", "CREATED", ""),
        (
            (
                image.tag,
                printing.size(image.size),
                printing.ago(image.created, now),
                "current" if image.current else "",
            )
            for image in found
        ),
    )


def choose(
    holdfast: Holdfast,
    *,
    image: str | None,
    folder: str | None,
    file: str | None,
    arguments: Sequence[str],
    target: str | None,
    policy: str | None,
    devcontainer: str | None,
    entrypoint: bool,
    network: str | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    remote: bool = False,
) -> str | None:
    """Return the name of a session's image, built, loaded or pulled as requested; None for the usual one.

    Raises:
        InvalidArgument: the options contradict each other, or name files that a server does not see.
        ImageError, EngineError: the image cannot be had.
    """
    from holdfast.runtime.lifecycle.load_image import is_path

    _check_build(folder, devcontainer, what=bool(file or arguments or target), how=bool(network or remote))
    if folder is not None and image is not None:
        raise InvalidArgument("cannot use two images: leave out --build or --image")
    if devcontainer is not None and (folder is not None or image is not None):
        raise InvalidArgument("cannot use two images: leave out --devcontainer, or --build and --image")
    from_file = image is not None and is_path(image)
    if policy is not None and (image is None or from_file):
        raise InvalidArgument("cannot pull: no image was named", hint="add --image NAME")
    if is_over_a_url() and entrypoint:
        raise InvalidArgument(
            "cannot run the entrypoint over a URL", hint="`holdfast exec --detach` runs a command as a job"
        )
    if is_over_a_url() and (folder or devcontainer or from_file or policy is not None):
        raise InvalidArgument(
            "cannot build, load or pull over a URL: the server's engine needs the image",
            hint="do it on the server's machine, and name the image with --image",
        )
    if folder is not None:
        where: Any = network  # checked where it is used
        return holdfast.images.build(
            folder,
            file=file,
            arguments=dict(map(_argument, arguments)),
            target=target,
            network=where,
            allow=allow,
            deny=deny,
            remote_sources=remote,
        )
    if image is None:
        return None
    if from_file:
        return holdfast.images.load(image)
    chosen: Any = policy  # checked where it is used
    return image if policy is None else holdfast.images.pull(image, chosen)


def _check_build(folder: str | None, devcontainer: str | None, *, what: bool, how: bool) -> None:
    if folder is None and what:
        raise InvalidArgument("cannot choose what is built: nothing is built", hint="add --build FOLDER")
    if folder is None and devcontainer is None and how:
        raise InvalidArgument(
            "cannot choose the rights of a build: nothing is built", hint="add --build or --devcontainer"
        )


def _argument(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument(f"cannot set build argument '{text[:60]}': it is not KEY=VALUE")
    return key, value
