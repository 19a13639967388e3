"""Loads YAML files of users, and checks the files with a JSON schema.

Use ``load_document``. The function reports all findings of a file in one DiagnosticError, with the
line and column of each finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from errno import EINVAL
from itertools import islice
from pathlib import Path
from typing import Any

from firmwright.documents.schema_check import describe, fill_defaults, find_errors
from firmwright.documents.yaml_text import Pointer, Position, format_pointer, read_yaml
from firmwright.errors import Diagnostic, DiagnosticError

MAX_BYTES = 1 << 20
"""The maximum size of a file. Larger files are rejected before reading. Typical files have far
less than 1 MiB.
"""

MAX_FINDINGS = 50
"""The maximum number of findings per file. More findings would hide the first finding."""


@dataclass(frozen=True)
class Document:
    """The data of one file, or of files that build on one another, with positions."""

    path: str
    data: dict[str, Any]
    positions: Mapping[Pointer, Position]
    removed: Mapping[Pointer, Position] = field(default_factory=dict)
    """The positions of the ``null`` that removed keys of an earlier document."""

    def make_diagnostic(self, pointer: Pointer, message: str, key: bool = False) -> Diagnostic:
        """Return ``message`` with the position of a value, its key, or the nearest outer value."""
        written = pointer
        while written and written not in self.positions:
            written = written[:-1]
        position = self.positions[written]
        line, column = (
            (position.key_line, position.key_column) if key else (position.line, position.column)
        )
        name = format_pointer(pointer)
        return Diagnostic(position.file, line, column, f"{name}: {message}" if name else message)

    def find_removal(self, pointer: Pointer, name: str) -> str:
        """Return the end of a message about a missing key: the ``null`` that removed it, or ''."""
        position = self.removed.get((*pointer, name))
        return f"; {position} removes it" if position else ""

    def get_source_text(self, pointer: Pointer) -> str:
        """Return the text of a scalar in the file, or '' for other values."""
        position = self.positions.get(pointer)
        return position.source_text if position else ""


def load_document(path: Path, schema: Mapping[str, Any], shown_as: str | None = None) -> Document:
    """Read, validate and complete a YAML file. The data has the schema's defaults.

    Messages name the file ``shown_as``. The default is ``path``. Raises DiagnosticError with all
    findings if the file cannot be read, is not YAML or does not fit the schema.
    """
    shown = shown_as or str(path)
    document, diagnostics = check_document(read_bytes(path, shown), schema, shown)
    if diagnostics:
        raise DiagnosticError(diagnostics)
    return document


def make_diagnostic_in(path: Path, pointer: Pointer, message: str) -> Diagnostic:
    """Read a YAML file again. Return ``message`` with the position of a value."""
    document, _ = parse_document(read_bytes(path, str(path)), str(path))
    return document.make_diagnostic(pointer, message)


def check_document(
    content: bytes, schema: Mapping[str, Any], shown: str
) -> tuple[Document, list[Diagnostic]]:
    """Parse and validate ``content``. Return the document with defaults, and the findings.

    A caller can add findings before the errors are raised. Raises DiagnosticError if ``content``
    has no data.
    """
    document, diagnostics = parse_document(content, shown)
    return complete_document(document, schema, diagnostics)


def complete_document(
    document: Document, schema: Mapping[str, Any], known: Iterable[Diagnostic]
) -> tuple[Document, list[Diagnostic]]:
    """Validate a document.

    Return the document with the defaults, and the findings after ``known``.
    """
    diagnostics = list(known)
    stated = {(d.path, d.line, d.column) for d in diagnostics}
    for finding in islice(
        find_errors(document.data, schema, document.get_source_text), MAX_FINDINGS
    ):
        message = finding.message
        if finding.missing:
            message += document.find_removal(finding.pointer, finding.missing)
        diagnostic = document.make_diagnostic(finding.pointer, message, finding.key)
        if (diagnostic.path, diagnostic.line, diagnostic.column) not in stated:
            diagnostics.append(diagnostic)
    if len(diagnostics) >= MAX_FINDINGS:
        diagnostics = sorted(set(diagnostics))[:MAX_FINDINGS]
        head = f"{MAX_FINDINGS} or more errors; some of them:"
        diagnostics.append(Diagnostic(document.path, 0, 0, head))
    return replace(document, data=fill_defaults(document.data, schema)), diagnostics


def read_bytes(path: Path, shown: str) -> bytes:
    """Return a file's content. Raises DiagnosticError if it is too large or cannot be read."""
    try:
        if path.is_fifo():  # reading a pipe without a writer would never end
            raise OSError(EINVAL, "it is a pipe; name a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        message = "no such file"
    except IsADirectoryError:
        message = "this is a directory; expected a YAML file"
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except ValueError as error:  # the path contains a NUL character
        message = f"cannot be read: {error}"
    else:
        if len(content) <= MAX_BYTES:
            return content
        message = f"larger than {MAX_BYTES >> 20} MiB, the maximum; check the path"
    raise DiagnosticError([Diagnostic(shown, 0, 0, message)])


def parse_document(content: bytes, shown: str) -> tuple[Document, list[Diagnostic]]:
    """Return the data of the file without validation, and the errors of YAML.

    Raises DiagnosticError if the data is not a mapping.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{content[error.start]:02x}; save the file as UTF-8"
        raise DiagnosticError([Diagnostic(shown, line, column, message)]) from None
    data, positions, diagnostics = read_yaml(text, shown)
    if not isinstance(data, dict):
        position = positions[()]
        message = f"expected a mapping (key: value) at the top, found {describe(data)}"
        raise DiagnosticError(
            [*diagnostics, Diagnostic(shown, position.line, position.column, message)]
        )
    return Document(shown, data, positions), diagnostics
