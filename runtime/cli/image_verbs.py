"""Verbs: image build, image ls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json
from holdfast.runtime.cli.caller import controller, wants_json

app = typer.Typer(help="Build and list the images of sessions.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def build(
    kind: Annotated[
        list[str] | None,
        typer.Argument(help="Such as `data`, `gateway`, `controller` (default: `session`, `toolbox`)."),
    ] = None,
    json: Json = False,
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


@app.command()
def ls(json: Json = False) -> None:
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
