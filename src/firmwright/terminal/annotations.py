"""Adds the annotations of GitHub to messages, so that a workflow marks errors in their files."""

from __future__ import annotations

import re
from typing import Any

from .guard import GuardedStream

PLACE = re.compile(
    r"(?:[a-z-]+:[^ ]+: )?(?P<file>[^:]+):(?P<line>[0-9]+):(?P<column>[0-9]+): (?P<text>.+)"
)
"""Matches a line of a message, after the name of the failed task."""


class AnnotatedStream(GuardedStream):
    """Writes a workflow command after each line that names a place in a file."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.pending = ""

    def write(self, text: str) -> int:
        *lines, self.pending = (self.pending + text).split("\n")
        count = super().write(text)
        for line in lines:
            if found := PLACE.fullmatch(line):
                super().write(format_annotation(**found.groupdict()))
        return count


def format_annotation(file: str, line: str, column: str, text: str) -> str:
    """Return GitHub's workflow command for an error."""
    name = escape(file).replace(",", "%2C")
    return f"::error file={name},line={line},col={column}::{escape(text)}\n"


def escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D")
