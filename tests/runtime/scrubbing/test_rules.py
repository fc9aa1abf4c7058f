"""The texts that count as secrets, and that no text makes the search slow."""

from __future__ import annotations

import random

import pytest
from tests.runtime.scrubbing.samples import ALNUM, IN_CONTEXT, MISSES, SECRETS, of

from holdfast.errors import InvalidArgument
from holdfast.runtime.scrubbing import known_values
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher, Rule, checked
from holdfast.runtime.scrubbing.scrubber import Scrubber

ALL = Matcher(RULES)


def _scrubbed(text: str, matcher: Matcher = ALL) -> str:
    return Scrubber(matcher).text(text)


@pytest.mark.parametrize(
    ("rule", "secret"), [(rule, each) for rule, all_ in SECRETS.items() for each in all_]
)
@pytest.mark.parametrize("around", ["{}", "export TOKEN={}\n", '{{"token": "{}"}}', "\x02\x00{}\x00\x01"])
def test_tokens_are_known_by_their_form(rule: str, secret: str, around: str) -> None:
    """Whatever surrounds them, they are removed as a whole, and the rest stays."""
    assert _scrubbed(around.format(secret)) == around.format(f"[scrubbed: {rule}]")


@pytest.mark.parametrize(
    ("rule", "line"), [(rule, each) for rule, all_ in IN_CONTEXT.items() for each in all_]
)
def test_secrets_without_a_form_are_known_by_their_context(rule: str, line: str) -> None:
    """The context stays."""
    assert _scrubbed(line.format(of(ALNUM + "+", 40))) == line.format(f"[scrubbed: {rule}]")


@pytest.mark.parametrize("text", MISSES)
def test_lookalikes_stay(text: str) -> None:
    """Too short, too long, an example, a template, the public half."""
    assert _scrubbed(f"x {text} y") == f"x {text} y"


def test_every_rule_has_samples() -> None:
    """A rule without samples could never match."""
    assert {rule.name for rule in RULES} == {*SECRETS, *IN_CONTEXT}


def test_two_secrets_side_by_side_are_two() -> None:
    """Each is counted by its rule."""
    scrubber = Scrubber(ALL)
    first, second = SECRETS["github token"][0], SECRETS["npm token"][0]

    assert scrubber.text(f"{first},{second}") == "[scrubbed: github token],[scrubbed: npm token]"
    assert scrubber.counts == {"github token": 1, "npm token": 1}


def test_scrubbed_text_stays_scrubbed() -> None:
    """Doing it twice changes nothing; nor is CI's masking taken for a secret."""
    once = _scrubbed(" ".join(each for all_ in SECRETS.values() for each in all_))

    assert _scrubbed(once) == once
    assert _scrubbed("https://me:[scrubbed: github token]@host") == "https://me:[scrubbed: github token]@host"


def test_values_of_json_are_scrubbed_with_their_keys() -> None:
    """Numbers and ordinary text stay unchanged, as do line ends and letters of other alphabets."""
    token = SECRETS["npm token"][0]
    told = {"a": [1, None, f"Grüße {token}\n", {token: "\udcff\ud800"}], "b": "日本"}

    assert Scrubber(ALL).value(told) == {
        "a": [1, None, "Grüße [scrubbed: npm token]\n", {"[scrubbed: npm token]": "\udcff\ud800"}],
        "b": "日本",
    }


def test_utf_16_is_searched() -> None:
    """As some programs hold text in memory."""
    found = list(Matcher(RULES, wide=True).find(b"\x01\x02" + SECRETS["github token"][0].encode("utf-16-le")))

    assert [(match.rule.name, match.start) for match in found] == [("github token", 2)]
    assert list(Matcher(RULES, wide=True).find("ghp_ is how they begin".encode("utf-16-le"))) == []


def test_allowed_text_is_not_secret() -> None:
    """All of it must be allowed."""
    secret = SECRETS["github token"][0]
    matcher = Matcher(RULES, ["ghp_[A-Z]", secret])

    assert _scrubbed(secret, matcher) == secret
    assert _scrubbed(secret + "x", matcher) == "[scrubbed: github token]"


def test_the_users_own_rules_come_first_and_can_have_groups() -> None:
    """Also several with groups of one name, and with flags."""
    rules = [checked("staff", "(?i)staff-(?P<secret>[0-9]{4})"), checked("other", "other-(?P<secret>[a-z]+)")]
    matcher = Matcher([*rules, *RULES])

    assert _scrubbed("STAFF-1234 other-abc", matcher) == "STAFF-[scrubbed: staff] other-[scrubbed: other]"


def test_a_rule_that_ends_within_a_character_damages_no_text() -> None:
    """Rules match bytes; the rest of a cut character is shown as a replacement."""
    assert _scrubbed("key-é é", Matcher([checked("own", "key-.")])) == "[scrubbed: own]\ufffd é"


@pytest.mark.parametrize(
    ("name", "regex", "why"),
    [
        ("a", "(", "cannot be used"),
        ("a", "(?=x)", "cannot be used"),
        ("a", r"(a)\1", "cannot be used"),
        ("a", "x*", "matches empty text"),
        ("", "x", "a name has"),
        ("a]b", "x", "a name has"),
        ("a", "x" * 3000, "more than"),
        ("a", "((a{1000}){1000}){1000}", "cannot be used"),
    ],
)
def test_invalid_rules_are_refused(name: str, regex: str, why: str) -> None:
    """With the reason, in one line."""
    with pytest.raises(InvalidArgument, match=why) as told:
        checked(name, regex)
    assert "\n" not in str(told.value)


def test_values_of_variables_are_found_in_all_their_forms() -> None:
    """As is, in base64, in URLs; short ones are not searched for."""
    value = "correct/horse battery"
    known = list(known_values.rules({"MY_TOKEN": value, "MY_ID": "abc", "OTHER": value + "x"}, ["MY_*"]))
    matcher = Matcher(known)

    assert [rule.name for rule in known] == ["value of MY_TOKEN"]
    for written in (value, "Y29ycmVjdC9ob3JzZSBiYXR0ZXJ5", "correct%2Fhorse%20battery"):
        assert _scrubbed(f"<{written}>", matcher) == "<[scrubbed: value of MY_TOKEN]>"
    assert [match.start for match in matcher.find(b"\x01" + value.encode("utf-16-le"))] == [1]


def test_no_text_makes_an_expression_backtrack() -> None:
    """Expressions are RE2's: one that would take other engines longer than the universe ends immediately."""
    hostile = checked("hostile", "(a+)+b")
    pieces = ["sk-", "eyJ", ".", "://", ":", "-----BEGIN ", "PRIVATE KEY-----", "gl", "pat-", "a", "AKIA"]
    text = "".join(random.Random(1).choices(pieces, k=200_000)) + "a" * 100_000

    assert [match for match in Matcher([hostile, *RULES]).find(text.encode()) if match.rule == hostile] == []


def test_an_empty_match_does_not_stop_the_search() -> None:
    """It is skipped, and the search continues."""
    assert [m.start for m in Matcher([Rule("word", r"\b[a-z]{3}\b")]).find(b"abc de fgh")] == [0, 7]
