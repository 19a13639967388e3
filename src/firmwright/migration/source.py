"""Reads the files that ``init --from`` converts, and defines their settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from firmwright.errors import Diagnostic, DiagnosticError, UserError, explain_failure

MAX_BYTES = 64 << 20
"""The maximum size of a file. The longest files are C arrays: the text of a model of 10 MB has
62 MB.
"""

MAX_FILES = 20_000
"""The maximum number of files in a folder. The limit rejects folders such as a home folder."""

MODEL_SUFFIXES = (".tflite", ".lite", ".onnx", ".pt2")


@dataclass(frozen=True)
class Setting:
    """One setting of a file: its name as in the tool, its value and its position."""

    name: str
    value: Any
    file: str
    line: int

    @property
    def location(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Computed:
    """A value that only a run of the script could compute. ``text`` is the source text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Source:
    """The text of a configuration. Relative paths in the text start at ``folder``."""

    shown: str
    folder: Path
    suffix: str
    text: str

    def make_error(self, line: int, message: str) -> DiagnosticError:
        return DiagnosticError([Diagnostic(self.shown, line, 1, message)])

    def find_line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1


def read_source(given: str) -> Source:
    """Return the file with this path, or a command line that is passed as text.

    The text of a folder is its list of files: each line is a relative path. Raises UserError if the
    path cannot be read.
    """
    path = Path(given)
    with explain_failure(f"{given}: cannot be read"):
        if " " in given and not os.path.exists(given):  # noqa: PTH110  # also for long text
            return Source("command line", Path(), "", given)
        if path.is_dir():
            paths = [*islice(path.rglob("*"), MAX_FILES + 1)]
            if len(paths) > MAX_FILES:
                raise UserError(
                    f"{given}: more than {MAX_FILES} files; name the folder of the export"
                )
            names = sorted(each.relative_to(path).as_posix() for each in paths)
            return Source(given, path, "/", "\n".join(names))
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    if path.suffix.lower() in MODEL_SUFFIXES:
        raise UserError(f"{given}: this is a model; write `firmwright init {given}`")
    if len(content) > MAX_BYTES:
        raise UserError(f"{given}: larger than {MAX_BYTES >> 20} MiB; name a configuration file")
    return Source(given, path.parent, path.suffix.lower(), decode(content, given))


def decode(content: bytes, shown: str) -> str:
    """Return the text of a file.

    Raises DiagnosticError at the first byte that is not UTF-8 text.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        odd = text.find("\0")
        line = text.count("\n", 0, odd) + 1
    except UnicodeDecodeError as error:
        odd, line = error.start, content.count(b"\n", 0, error.start) + 1
    if odd >= 0:
        raise DiagnosticError(
            [Diagnostic(shown, line, 1, "not a text file in UTF-8; save it as UTF-8")]
        )
    return text
