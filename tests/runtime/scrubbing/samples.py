"""Fake secrets: of the right form, made of random letters each time, so that no file has one."""

from __future__ import annotations

import random
import string

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "_-"
UPPER = string.ascii_uppercase + "234567"


def of(alphabet: str, size: int, seed: int = 7) -> str:
    """Return letters that are always the same for a seed."""
    return "".join(random.Random(seed).choices(alphabet, k=size))


def pem(kind: str = "RSA PRIVATE KEY", lines: int = 12, end: str = "\n") -> str:
    """Return a key as OpenSSL and OpenSSH write it."""
    body = [of(ALNUM + "+/", 64, seed) for seed in range(lines)]
    return end.join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"])


SECRETS = {
    "github token": [
        "ghp_" + of(ALNUM, 36),
        "ghs_" + of(ALNUM, 50),
        f"github_pat_{of(ALNUM, 22)}_{of(ALNUM, 59)}",
    ],
    "gitlab token": ["glpat-" + of(URLSAFE, 20), f"glpat-{of(URLSAFE, 30)}.01.{of(ALNUM.lower(), 9)}"],
    "aws access key": ["AKIA" + of(UPPER, 16), "ASIA" + of(UPPER, 16)],
    "slack token": ["xoxb-" + of(string.digits, 12) + "-" + of(ALNUM, 24), "xapp-1-" + of(ALNUM, 40)],
    "slack webhook": [f"hooks.slack.com/services/T{of(UPPER, 9)}/B{of(UPPER, 9)}/{of(ALNUM, 24)}"],
    "anthropic key": ["sk-ant-api03-" + of(URLSAFE, 93) + "AA"],
    "openai key": [
        "sk-proj-" + of(URLSAFE, 80),
        f"sk-{of(ALNUM, 20)}T3BlbkFJ{of(ALNUM, 20)}",
        "sk-" + of(ALNUM, 48),
    ],
    "google api key": ["AIza" + of(URLSAFE, 34) + "x"],
    "npm token": ["npm_" + of(ALNUM, 36)],
    "pypi token": ["pypi-AgEIcHlwaS5vcmc" + of(URLSAFE, 150)],
    "docker token": ["dckr_pat_" + of(URLSAFE, 26) + "x"],
    "stripe key": ["sk_live_" + of(ALNUM, 24), "rk_test_" + of(ALNUM, 99)],
    "hugging face token": ["hf_" + of(string.ascii_letters, 34)],
    "json web token": [f"eyJ{of(URLSAFE, 33)}.eyJ{of(URLSAFE, 80)}.{of(URLSAFE, 43)}"],
    "private key": [
        pem(),
        pem("OPENSSH PRIVATE KEY"),
        pem("PRIVATE KEY", end="\r\n"),
        pem("EC PRIVATE KEY", lines=3),
        pem("PGP PRIVATE KEY BLOCK"),
        pem("ENCRYPTED PRIVATE KEY", end="\\n"),
        pem().replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C\n\n", 1),
    ],
}
"""By rule, each a secret as a whole."""

IN_CONTEXT = {
    "aws secret key": ["aws_secret_access_key = {}", 'AWS_SECRET_ACCESS_KEY="{}"', '"awsSecretKey": "{}"'],
    "password in a url": ["https://me:{}@example.org/x", "postgres://app:{}@db:5432/x", "amqp://:{}@[::1]/"],
}
"""Secrets that only their context reveals."""

MISSES = [
    "ghp_" + of(ALNUM, 35),
    "ghp_" + "x" * 36,
    "ghx_" + of(ALNUM, 36),
    "github_pat_" + of(ALNUM, 22) + "-" + of(ALNUM, 59),
    "glpat-" + of(URLSAFE, 19),
    "AKIA" + of(UPPER, 15),
    "AKIA" + of(UPPER, 17),
    "AKIAIOSFODNN7EXAMPLE",
    "AKIA" + of(string.ascii_lowercase, 16),
    "xoxb-" + of(ALNUM, 19),
    "task-" + of(ALNUM, 48),
    "mask-image-radial-gradient-to-the-left-of-all-others",
    "sk-" + of(ALNUM, 31),
    "AIza" + of(URLSAFE, 34),
    "AIza" + of(ALNUM, 36),
    "npm_" + of(ALNUM, 35),
    "npm_config_" + of(string.ascii_lowercase, 40),
    "pypi-" + of(URLSAFE, 150),
    "sk_live_" + of(ALNUM, 19),
    "eyJ" + of(URLSAFE, 33) + "." + of(URLSAFE, 80) + "." + of(URLSAFE, 43),
    "-----BEGIN PUBLIC KEY-----\n" + "\n".join(pem().splitlines()[1:-1]),
    "-----BEGIN CERTIFICATE-----\n" + "\n".join(pem().splitlines()[1:-1]),
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\0-----END RSA PRIVATE KEY-----\0" + of(ALNUM, 200),
    "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 200,
    "aws_secret_access_key = " + of(ALNUM, 39),
    "aws_secret_access_key = " + of(ALNUM, 41),
    "https://me:password@example.org",
    "https://me:$PASSWORD@example.org",
    "https://me:${PASSWORD}@example.org",
    "https://me:***@example.org",
    "https://me:{{ secret }}@example.org",
    "https://example.org:8080/a@b",
    "https://me@example.org",
    "see https://example.org/: mail me@example.org",
]
"""Lookalikes that are not secrets."""
