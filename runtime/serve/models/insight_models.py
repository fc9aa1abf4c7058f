"""What is asked of calls that look: events, and changes of files."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from holdfast.runtime.serve.models.base_models import TEXT, RequestBody

Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class EventsQuery(RequestBody):
    """From where on, which kinds (notable ones by default), and whether those to come as well."""

    after: Annotated[int, Field(ge=0, lt=2**53)] = 0
    kind: Annotated[list[Kind], Field(max_length=50)] | None = None
    follow: bool = True


class WatchQuery(RequestBody):
    """A folder or file to be watched."""

    path: Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)] = "."
    recursive: bool = False
    user: Annotated[str, Field(pattern=r"^([a-z_][a-z0-9_-]{0,31}|\d{1,10})$")] | None = None
