"""Asks for input that never comes."""

import getpass


def test_a_password_is_asked_for() -> None:
    assert getpass.getpass("Password of the registry: ") == "correct horse"
