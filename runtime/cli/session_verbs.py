"""Verbs: new, ls, rm."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import image_choice, printing, session_table
from holdfast.runtime.cli.arguments import Json, NameOption, SessionRefs
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.session_flags import flags
from holdfast.runtime.store.policy import parse_text


@flags("new")
def new(
    given: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the new session.", show_default=False)
    ] = None,
    name: NameOption = None,
    image: Annotated[
        str | None, typer.Option(help="Any Linux image, `data`, or ./FILE; by default Holdfast's own.")
    ] = None,
    build: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Build the image, of a folder with a Dockerfile.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="With --build: the Dockerfile.")] = None,
    build_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="With --build: the value of an ARG. Repeatable."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --build: the stage to build.")] = None,
    build_network: Annotated[
        str | None,
        typer.Option(
            metavar="internet|none|engine", help="Network of a build's steps; by default a session's."
        ),
    ] = None,
    allow_remote_sources: Annotated[
        bool,
        typer.Option(
            "--allow-remote-sources",
            help="Let the engine fetch what a Dockerfile names: URLs of ADD, frontends.",
        ),
    ] = False,
    pull: Annotated[
        str | None, typer.Option(help="When to ask the image's registry: `missing`, `always` or `never`.")
    ] = None,
    devcontainer: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="As its devcontainer.json says, with a copy of the folder."),
    ] = None,
    entrypoint: Annotated[
        bool, typer.Option("--entrypoint", help="Run the image's ENTRYPOINT, as a job of that name.")
    ] = False,
    *,
    options: dict[str, Any],
    policy: Annotated[
        str | None,
        typer.Option(metavar="every=20,before-risky,...", help="Same settings as `holdfast policy`."),
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="Start as this template was, with its programs running.")
    ] = None,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Start with the kernel ready, from a template made at the first use."),
    ] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="A label to find it by, as in `ls --label`. Repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Start a session."""
    if given is not None and name is not None:
        raise InvalidArgument("cannot name the session twice", hint=f"`holdfast new {given}`")
    holdfast = controller()
    chosen = image_choice.choose(
        holdfast,
        image=image,
        folder=build,
        file=file,
        arguments=build_arg or (),
        target=target,
        policy=pull,
        devcontainer=devcontainer,
        entrypoint=entrypoint,
        network=build_network,
        allow=options.get("allow", ()),
        remote=allow_remote_sources,
    )
    new = partial(holdfast.new)
    if devcontainer is not None:
        rights: Any = {"build_network": build_network, "remote_sources": allow_remote_sources}
        new = partial(holdfast.new, devcontainer=devcontainer, **rights)
    new = partial(new, entrypoint=True) if entrypoint else new
    made = new(
        name if given is None else given,
        image=chosen,
        policy=None if policy is None else parse_text(policy),
        template=template,
        warm=warm,
        labels=label,
        **options,
    )
    if wants_json(json):
        printing.emit(made.as_dict())
    else:
        printing.say(made.name)


def ls(
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY[=VALUE]", help="Only sessions with this label. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """List sessions."""
    session_table.show(label=label, json=json)


def rm(sessions: SessionRefs, json: Json = False) -> None:
    """End sessions and delete them. Their snapshots stay."""
    with controller() as holdfast:
        found = list({session.id: session for session in map(holdfast.session, sessions)}.values())
        for session in found:
            session.remove()
    if wants_json(json):
        printing.emit([{"id": session.id, "name": session.name} for session in found])
