"""Recordings of terminals."""

from __future__ import annotations

from typing import Literal

from holdfast.runtime.serve.models.base_models import AnswerBody


class RecordingAnswer(AnswerBody):
    """A part of what a terminal showed: offsets of its output, and the size of the terminal where it begins.

    `kept_start` and `kept_end` are those of all that is kept; `missing` bytes at the beginning of the part
    are not. `begun` is in Unix seconds.
    """

    start: int
    end: int
    kept_start: int
    kept_end: int
    missing: int
    begun: float
    rows: int
    cols: int
    title: str


class CastEventAnswer(AnswerBody):
    """One event: `o` output, `i` input, `r` a new size (COLSxROWS), `m` a marker. `at` is in Unix seconds."""

    at: float
    code: Literal["o", "i", "r", "m"]
    data: str
    offset: int
