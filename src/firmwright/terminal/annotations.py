"""Adds the annotations of GitHub to messages, so that a workflow marks errors in their files."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from .guard import GuardedStream, find_unguarded

LOCATION = re.compile(
    r"(?:[a-z-]+:[^ ]+: )?(?P<file>[^:]+):(?P<line>[0-9]+):(?P<column>[0-9]+): (?P<text>.+)"
)
"""Matches a line of a message, after the name of the failed task."""


class AnnotatedStream(GuardedStream):
    """Writes a workflow command after each line that names a position in a file."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.pending = ""

    def write(self, text: str) -> int:
        *lines, self.pending = (self.pending + text).split("\n")
        count = super().write(text)
        for line in lines:
            if match := LOCATION.fullmatch(line):
                super().write(format_annotation(**match.groupdict()))
        return count


def annotate_errors() -> None:
    """Annotate the messages on stderr in a workflow of GitHub."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and sys.stderr is not None:
        sys.stderr = AnnotatedStream(find_unguarded(sys.stderr))


def format_annotation(file: str, line: str, column: str, text: str) -> str:
    """Return GitHub's workflow command for an error."""
    name = escape(file).replace(",", "%2C")
    return f"::error file={name},line={line},col={column}::{escape(text)}\n"


def escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D")
