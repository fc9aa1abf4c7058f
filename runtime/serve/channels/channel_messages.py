"""Messages of a WebSocket, in both directions.  Pure.

A message is a JSON object in a text frame. The client opens channels, by numbers of its choice; everything
about a channel has its number. Output comes only as far as the client has given credit for it.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any

from pydantic import Field, ValidationError

from holdfast.base import ids, printable_json
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.serve.models.base_models import LONGEST_KEY, Patient, RequestBody

MOST_CREDIT = 4 << 20
"""Bytes that can be sent on a channel before the client gives more credit."""
FIRST_CREDIT = 1 << 20

Number = Annotated[int, Field(ge=1, lt=2**31)]


class OpenMessage(RequestBody):
    """Opens a channel with a call in a session; `args` are the arguments of the call."""

    open: Number
    call: Annotated[str, Field(min_length=1, max_length=40)]
    session: Annotated[str, Field(pattern=f"^{ids.NAME}$")]
    args: dict[str, Any] = Field(default_factory=dict)
    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[\x21-\x7e]+$")] | None = None
    patience: Patient | None = None
    credit: Annotated[int, Field(ge=0, le=MOST_CREDIT)] = FIRST_CREDIT


class CreditMessage(RequestBody):
    """Grants a channel this many more bytes."""

    channel: Number
    credit: Annotated[int, Field(ge=1, le=MOST_CREDIT)]


class TypeMessage(RequestBody):
    """Text typed into the terminal of a channel."""

    channel: Number
    type: Annotated[str, Field(max_length=1 << 20)]


class TypeBytesMessage(RequestBody):
    """Bytes typed into the terminal of a channel, in base64."""

    channel: Number
    type_base64: Annotated[str, Field(max_length=1 << 20)]


class ResizeMessage(RequestBody):
    """Another size of the client's terminal: rows and columns."""

    channel: Number
    resize: Annotated[list[Annotated[int, Field(ge=1, le=1000)]], Field(min_length=2, max_length=2)]


class CloseMessage(RequestBody):
    """Ends a channel, but not the followed work."""

    close: Number


Message = OpenMessage | CreditMessage | TypeMessage | TypeBytesMessage | ResizeMessage | CloseMessage
FORMS: tuple[tuple[str, type[Message]], ...] = (
    ("open", OpenMessage),
    ("close", CloseMessage),
    ("credit", CreditMessage),
    ("type", TypeMessage),
    ("type_base64", TypeBytesMessage),
    ("resize", ResizeMessage),
)
"""The key by which a message is recognized."""
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def parse(text: str) -> Message:
    """Parse what a client sent.

    Raises:
        InvalidArgument: it is not a message.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("cannot read the message: it is not JSON") from error
    form = next((form for key, form in FORMS if isinstance(found, dict) and key in found), None)
    if form is None:
        keys = ", ".join(key for key, _ in FORMS)
        raise InvalidArgument(f"cannot read the message: it does not have any of {keys}")
    try:
        return form.model_validate(found)
    except ValidationError as error:
        raise InvalidArgument(f"cannot read the message: {wrong(error)}") from error


def wrong(error: ValidationError) -> str:
    """Return the fault of a value, in one line."""
    found = error.errors(include_input=False)[:3]
    said = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found]
    return plain("; ".join(said), 400)


def typed(message: TypeMessage | TypeBytesMessage) -> bytes:
    """Return the bytes that a message types.

    Raises:
        InvalidArgument: they are not in base64.
    """
    if isinstance(message, TypeMessage):
        return message.type.encode()
    try:
        return base64.b64decode(message.type_base64, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidArgument("cannot type: that is not base64") from error


def written(channel: int | None, told: dict[str, Any]) -> str:
    """Return a message to the client; one without channel is about the connection."""
    about = {} if channel is None else {"channel": channel}
    return printable_json.escaped(_COMPACT.encode({**about, **told}))
