"""Relies on the order of a set, as tests do now and then."""


def test_the_first_of_a_set() -> None:
    assert next(iter({"select", "insert"})) == "select"
