"""Placeholders become values on the way out, and values placeholders on the way back."""

from __future__ import annotations

import base64
import json

import pytest

from holdfast.runtime.gateway import exchange
from holdfast.runtime.gateway.exchange import Exchange
from holdfast.runtime.gateway.session_rules import Secret

VALUE = 'a/b+c=d"e\\f'
PLACEHOLDER = exchange.new_placeholder()


def made() -> Exchange:
    return Exchange([Secret("T", PLACEHOLDER, (), VALUE)])


def test_each_place_gets_the_form_it_needs() -> None:
    """A header unchanged, a URL and a form percent-encoded, JSON escaped."""
    one = made()
    assert one.header(f"Bearer {PLACEHOLDER}".encode()) == f"Bearer {VALUE}".encode()
    assert one.target(f"/a?k={PLACEHOLDER}".encode()) == b"/a?k=a%2Fb%2Bc%3Dd%22e%5Cf"
    assert one.body(f"k={PLACEHOLDER}".encode(), "application/x-www-form-urlencoded; a=b") == (
        b"k=a%2Fb%2Bc%3Dd%22e%5Cf"
    )
    assert json.loads(one.body(json.dumps({"k": PLACEHOLDER}).encode(), "application/json")) == {"k": VALUE}
    assert one.body(PLACEHOLDER.encode(), "text/plain") == VALUE.encode()


def test_basic_authentication_is_decoded() -> None:
    """As user or password; text that is not base64 stays unchanged."""
    one = made()
    sent = one.header(b"Basic " + base64.b64encode(f"me:{PLACEHOLDER}".encode()))
    assert base64.b64decode(sent.split()[1]) == f"me:{VALUE}".encode()
    assert PLACEHOLDER.encode() in base64.b64decode(one.back(sent).split()[1])
    for other in (b"Basic !!!", b"Basic", b"Basic " + base64.b64encode(b"me:x")):
        assert one.header(other) == other


def test_an_unknown_placeholder_stays() -> None:
    """Even one that only differs in its last digit."""
    other = PLACEHOLDER[:-1] + ("0" if PLACEHOLDER[-1] != "0" else "1")
    assert made().header(other.encode()) == other.encode()


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("form", [VALUE, "a%2Fb%2Bc%3Dd%22e%5Cf", json.dumps(VALUE)[1:-1]])
def test_a_value_is_found_however_a_body_is_cut(size: int, form: str) -> None:
    """In each form; other data is passed on, and nothing is left over."""
    data = f"a/b+ {form} a/b+c= {form}{form} a/b".encode()
    for same_length in (False, True):
        stream = made().stream(same_length)
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        passed = b"".join(part for piece in (*pieces, b"") for part in stream(piece))
        assert form.encode() not in passed
        assert passed.startswith(b"a/b+ holdfast-")
        assert passed.endswith(b" a/b")
        assert len(passed) == len(data) if same_length else passed.count(PLACEHOLDER.encode()) == 3


def test_data_that_cannot_be_a_value_does_not_wait() -> None:
    """A program that reads a stream of events gets each as it comes."""
    assert made().stream()(b"data: event\n\n") == [b"data: event\n\n"]
