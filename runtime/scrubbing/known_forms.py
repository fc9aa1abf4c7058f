"""The built-in rules: tokens that are recognizable by their form. Pure.

The forms are those their makers document, as far as they do. They are wide in length, because makers make
tokens longer now and then. Placeholders are left alone: `ghp_xxxx…`, AWS's own EXAMPLE keys.
"""

from __future__ import annotations

from holdfast.runtime.scrubbing.rule import Rule

_TOKEN = 8
"""Of 16 random letters of an alphabet of 32, one in 20 000 has so few distinct ones."""
# Base64 in lines; line ends and quotes as texts in JSON, YAML and source code have them; headers of old PEM.
BODY = r"(?:[A-Za-z0-9+/=\s:,.\\\"']|-[A-Za-z0-9])"
_PLACEHOLDERS = frozenset(
    {
        *("pass", "passwd", "password", "passphrase", "pwd", "pw", "secret", "token", "user", "username"),
        *("xxx", "xxxx", "...", "***", "foo", "bar", "baz", "test", "example", "changeme", "your-password"),
    }
)

PRIVATE_KEY = r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"

RULES: tuple[Rule, ...] = (
    Rule(
        "private key",
        rf"{PRIVATE_KEY}{BODY}{{64}}{BODY}*"
        r"(?:-----END [A-Z0-9 ]{3,40}-----)?",
        ("-----BEGIN ",),
        distinct=20,
    ),
    Rule(
        "github token",
        r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59,}",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        distinct=_TOKEN,
    ),
    Rule(
        "gitlab token",
        r"gl(?:pat|dt|rt|rtr|ptt|cbt|soat|agent|oas|ft|imt)-[A-Za-z0-9_-]{20,}(?:\.[a-z0-9]{2,20}){0,2}",
        tuple(
            f"gl{kind}-"
            for kind in ("pat", "dt", "rt", "rtr", "ptt", "cbt", "soat", "agent", "oas", "ft", "imt")
        ),
        distinct=_TOKEN,
    ),
    Rule("aws access key", r"(?:AKIA|ASIA)[A-Z2-7]{16}\b", ("AKIA", "ASIA"), distinct=_TOKEN),
    Rule(
        "aws secret key",
        r"(?i:aws_?secret_?(?:access_?)?key)[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
        hints=("aws_secret", "awssecret"),
        distinct=_TOKEN,
    ),
    Rule(
        "slack token",
        r"xox[abeoprs](?:\.xox[abeoprs])?-[A-Za-z0-9-]{20,}|xapp-[0-9]-[A-Za-z0-9-]{20,}",
        ("xoxa", "xoxb", "xoxe", "xoxo", "xoxp", "xoxr", "xoxs", "xapp-"),
        distinct=_TOKEN,
    ),
    Rule(
        "slack webhook",
        r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9]{8,}/[A-Za-z0-9]{8,}/[A-Za-z0-9/]{20,}",
        ("hooks.slack.com/",),
        distinct=_TOKEN,
    ),
    Rule("anthropic key", r"sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{40,}", ("sk-ant-",), distinct=_TOKEN),
    Rule(
        "openai key",
        r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"
        r"|\bsk-[A-Za-z0-9]{32,}",
        ("sk-",),
        distinct=_TOKEN,
    ),
    Rule(
        "google api key", r"(?P<secret>AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)", ("AIza",), distinct=_TOKEN
    ),
    Rule("npm token", r"npm_[A-Za-z0-9]{36}\b", ("npm_",), distinct=_TOKEN),
    Rule("pypi token", r"pypi-AgE[A-Za-z0-9_-]{60,}", ("pypi-AgE",), distinct=_TOKEN),
    Rule("docker token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{24,}", ("dckr_",), distinct=_TOKEN),
    Rule(
        "stripe key",
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{20,}",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_"),
        distinct=_TOKEN,
    ),
    Rule("hugging face token", r"\bhf_[A-Za-z]{34}\b", ("hf_",), distinct=_TOKEN),
    Rule(
        "json web token",
        r"eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{20,}",
        ("eyJ",),
        distinct=16,
    ),
    Rule(
        "password in a url",
        # Variables and templates ($, {, <, %) are not passwords, nor are values that are masked already.
        r"://[A-Za-z0-9._~%+!=-]{0,100}:"
        r"(?P<secret>[A-Za-z0-9._~%+!=&;,^()?#-]{4,200})@[A-Za-z0-9\[]",
        hints=("://",),
        distinct=3,
        placeholders=_PLACEHOLDERS,
    ),
)
