"""A secret is never shown, however it is cut or written."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote

import pytest
from tests.runtime.scrubbing.samples import SECRETS, pem

from holdfast.runtime.ci.redaction import MASK, Redaction
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.snapshots.failure import Failure

SECRET = "s3cr3t/+value"


@pytest.fixture
def redaction() -> Redaction:
    return Redaction({"MY_TOKEN": SECRET, "HOME": "/root", "GIT_AUTHOR_NAME": "Ada"})


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "DB_PASSWORD", "API_KEY", "apikey", "AWS_SECRET_ACCESS_KEY"]
)
def test_names_of_secrets(name: str) -> None:
    """The usual names are known without configuration."""
    assert Redaction({name: "value-of-it"}).text("the value-of-it") == f"the {MASK}"


def test_other_names_can_be_added() -> None:
    """Patterns add names, in upper or lower case; others stay visible."""
    redaction = Redaction({"STAGING_URL": "https://host", "LANG": "C.UTF-8"}, ["staging_*"])
    assert redaction.text("https://host C.UTF-8") == f"{MASK} C.UTF-8"
    assert redaction.secret("STAGING_B")
    assert not redaction.secret("LANG")


def test_ordinary_variables_stay_visible(redaction: Redaction) -> None:
    """An author is not an authorization, a home not a secret."""
    assert redaction.text("Ada in /root") == "Ada in /root"


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        json.dumps(SECRET)[1:-1],
    ],
)
def test_a_value_is_hidden_in_its_usual_forms(redaction: Redaction, written: str) -> None:
    """As is, in a URL, as base64, in JSON."""
    assert redaction.text(f"<{written}>") == f"<{MASK}>"


def test_each_line_of_a_key_is_hidden() -> None:
    """A private key printed line by line shows none of them."""
    key = "-----BEGIN KEY-----\nMIIEvAIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    shown = Redaction({"DEPLOY_KEY": key}).text("x MIIEvAIBADANBgkq y\nz hkiG9w0BAQEFAASC")
    assert shown == f"x {MASK} y\nz {MASK}"


def test_the_password_of_an_address_is_hidden() -> None:
    """In a variable of any name, and in text that was not known before."""
    redaction = Redaction({"SOURCE": "postgres://me:hunter22@db/x"})
    assert redaction.data(b"connecting with hunter22") == b"connecting with ***"
    assert redaction.text("see ftp://a:bcdef@host/") == f"see ftp://a:{MASK}@host/"


def test_short_values_are_named_and_left() -> None:
    """Hiding `1` or `true` would garble every output; the job's owner can be warned."""
    redaction = Redaction({"USE_KEY": "true", "SOME_TOKEN": "abc", "OTHER_TOKEN": ""})
    assert redaction.text("true abc") == "true abc"
    assert redaction.too_short == ("SOME_TOKEN", "USE_KEY")
    assert redaction.names == ()


def test_a_stream_hides_secrets_however_it_is_cut(redaction: Redaction) -> None:
    """Cut at any two places, the output is the same as in one piece."""
    text = f"a {SECRET} b s3c {SECRET}{SECRET} s3cr3t".encode()
    whole = redaction.data(text)
    assert SECRET.encode() not in whole
    for first, second in itertools.combinations(range(len(text) + 1), 2):
        stream = redaction.stream()
        pieces = [text[:first], text[first:second], text[second:]]
        assert b"".join([*map(stream.feed, pieces), stream.end()]) == whole


def test_a_stream_byte_by_byte_shows_no_beginning_of_a_secret(redaction: Redaction) -> None:
    """A possible secret is held back until it is decided; all other text comes immediately."""
    stream = redaction.stream()
    shown = [stream.feed(bytes([byte])) for byte in f"x{SECRET}y".encode()]
    assert shown[0] == b"x"
    assert b"".join(shown) == b"x***y"
    assert stream.end() == b""


def test_a_secret_within_a_longer_one_does_not_show_the_rest() -> None:
    """Of two secrets of which one begins with the other, the longer one is hidden as a whole."""
    redaction = Redaction({"A_TOKEN": "abcd", "B_TOKEN": "abcdefgh"})
    for cut in range(9):
        stream = redaction.stream()
        shown = stream.feed(b"abcdefgh"[:cut]) + stream.feed(b"abcdefgh"[cut:]) + stream.end()
        assert shown == b"***"


def test_bytes_that_are_not_text_pass(redaction: Redaction) -> None:
    """A stream without secrets is the same, byte for byte."""
    data = bytes(range(256)) * 3
    stream = redaction.stream()
    assert stream.feed(data) + stream.end() == data
    assert Redaction({}).stream().feed(data) == data


def test_a_failure_record_is_redacted(redaction: Redaction) -> None:
    """In every text of it."""
    record = Failure(reason="failed", command=f"curl -H {SECRET}", tail=f"a\n{SECRET}\n", where=SECRET)
    clean = redaction.failure(record)
    assert SECRET not in clean.model_dump_json()
    assert clean.tail == f"a\n{MASK}\n"


def test_secrets_without_a_variable_are_hidden_by_the_rules() -> None:
    """A token that the job made itself; a value that also matches a rule stays a value."""
    known, made = SECRETS["github token"][0], SECRETS["npm token"][0]
    redaction = Redaction({"GH_TOKEN": known}, matcher=Matcher(RULES))
    record = redaction.failure(
        Failure(reason="failed", command=f"deploy {made}", tail=f"x {known}\ny {made}")
    )

    assert redaction.text(f"{known} {made}") == f"{MASK} [scrubbed: npm token]"
    assert record.command == "deploy [scrubbed: npm token]"
    assert record.tail == f"x {MASK}\ny [scrubbed: npm token]"


@pytest.mark.parametrize("size", [1, 2, 5, 17, 64, 1000])
def test_a_stream_loses_both_kinds_however_it_is_cut(size: int) -> None:
    """Values of variables, and matches of the rules; the rest is shown."""
    known, made = SECRETS["github token"][0], SECRETS["npm token"][0]
    redaction = Redaction({"GH_TOKEN": known}, matcher=Matcher(RULES))
    data = f"....{known}...\n{pem()}\nsee https://me:hunter22@host {made}".encode() * 3
    stream = redaction.stream()

    shown = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.end()

    assert shown == redaction.data(data)
    for secret in (known, made, "hunter22", pem()[40:90]):
        assert secret.encode() not in shown
