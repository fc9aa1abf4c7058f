"""Answers carry texts of any bytes, and no terminal obeys them."""

import json

from holdfast.runtime.serve.json_answers import PrintableAnswer


def test_names_that_are_no_utf_8_come_back() -> None:
    told = {"path": "/w/\udcff", "\udc80": "\x9b31m", "text": "é"}
    body = bytes(PrintableAnswer(told).body)
    assert json.loads(body) == told
    assert b"\xc2\x9b" not in body
