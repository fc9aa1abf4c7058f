"""Verbs: image build, image ls."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples


@examples("image build", "image build data")
def build(
    kind: list[str] | None = argument(
        "KIND", default=None, help="Such as `data`, `gateway`, `controller` (default: `session`, `toolbox`)."
    ),
    json: bool = JSON,
) -> None:
    """Build missing images."""
    from holdfast.images import build as images
    from holdfast.runtime.egress import home_file

    holdfast = controller()
    known = holdfast.engine.images
    made = [(each, images.ensure(known, each, printing.note)) for each in kind or images.ALWAYS]
    for place in home_file.refresh(holdfast.home).found:
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
