"""Verbs: image build, image ls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, controller, wants_json

app = typer.Typer(help="Build and list the images of sessions.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def build(
    kind: Annotated[list[str] | None, typer.Argument(help="`session` or `toolbox` (default: both).")] = None,
    json: Json = False,
) -> None:
    """Build missing images."""
    from holdfast.images import build as images
    from holdfast.runtime.egress import home_file

    holdfast = controller()
    client = holdfast.engine.client
    made = [(each, images.ensure(client, each, output.note)) for each in kind or images.ALWAYS]
    for place in home_file.refresh(holdfast.home).found:
        output.note(f"network: packages come from {place}, which is opened for sessions")
    if wants_json(json):
        output.emit([{"id": tag, "name": tag, "kind": each} for each, tag in made])
    else:
        for _, tag in made:
            output.say(tag)


@app.command()
def ls(json: Json = False) -> None:
    """List images."""
    from holdfast.images import build as images

    found = images.list_images(controller().engine.client)
    if wants_json(json):
        output.emit(
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
    output.table(
        ("IMAGE", "SIZE", "CREATED", ""),
        (
            (
                image.tag,
                output.size(image.size),
                output.ago(image.created, now),
                "current" if image.current else "",
            )
            for image in found
        ),
    )
