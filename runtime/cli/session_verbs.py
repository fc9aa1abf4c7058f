"""Verbs: new, ls, rm."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import image_choice, printing, session_table
from holdfast.runtime.cli.arguments import Allow, Domain, Json, NameOption, SessionRefs
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.retention import policy_text


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
    network: Annotated[
        str | None, typer.Option("--network", help="`internet`, `none`, `open` or `domains`.")
    ] = None,
    allow: Allow = None,
    domain: Domain = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME@HOST[,HOST...]=SOURCE",
            help="A secret that only HOST gets, never the session: env:VAR or @FILE. Repeatable.",
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Limit, such as 512m or 4g.")] = None,
    disk: Annotated[
        str | None, typer.Option(help="Limit of the session's own files, where the engine supports it.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="Limit in cores, such as 1.5.")] = None,
    pids: Annotated[int | None, typer.Option(help="Limit of processes and threads.")] = None,
    user: Annotated[str | None, typer.Option(help="User that shell and kernel run as.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set a variable. Repeatable.")
    ] = None,
    mount: Annotated[
        list[str] | None, typer.Option(metavar="SRC:DST[:ro]", help="Mount a host folder. Repeatable.")
    ] = None,
    workdir: Annotated[str | None, typer.Option(help="Initial working directory.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Forbid writing to the image's files.")
    ] = False,
    writable: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", help="With --read-only: a folder to write to. Repeatable."),
    ] = None,
    shell: Annotated[
        str | None,
        typer.Option(metavar="bash|zsh|fish|PATH|holdfast", help="Shell of the image, or our own bash."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Jupyter kernel of the image that cells run in.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter in the session that cells run in.")
    ] = None,
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
        allow=allow or (),
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
        network=network,
        allow=allow,
        domains=domain,
        secrets=secret,
        memory=memory,
        disk=disk,
        cpus=cpus,
        pids=pids,
        user=user,
        env=env,
        mounts=mount,
        workdir=workdir,
        read_only=read_only or None,
        writable=writable,
        shell=shell,
        kernel=kernel,
        python=python,
        policy=None if policy is None else policy_text.policy(policy),
        template=template,
        warm=warm,
        labels=label,
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
